//! Attacks that must be found, and templates as in real models, which must not be reported.

use super::dangers;

/// Each of these could run code, or leads to something that can.
const ATTACKS: &[&str] = &[
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ messages.__class__ }}",
    "{{ ''['__class__'] }}",
    "{{ ''[\"__class__\"][\"__base__\"] }}",
    "{{ ''['__cl' ~ 'ass__'] }}",
    "{{ ''['_' ~ '_cla' ~ 'ss_' ~ '_'] }}",
    "{{ ''['_' + '_class_' + '_'] }}",
    "{{ ''['_' '_class_' '_'] }}",
    "{{ ''['\\x5f\\x5fclass\\x5f\\x5f'] }}",
    "{{ ''['\\u005f\\u005fclass'] }}",
    "{{ ''['\\137\\137class\\137\\137'] }}",
    "{{ ''['\\U0000005f_class'] }}",
    "{{ ''|attr('cla' ~ 'ss') }}",
    "{{ ''|attr(x) }}",
    "{{ [x]|map('attr', y)|list }}",
    "{{ [x]|map(attribute='__class__')|list }}",
    "{{ [x]|map(attribute='a.__class__')|list }}",
    "{{ [x]|selectattr('__init__')|list }}",
    "{{ ''[['_', '_', 'class', '_', '_']|join] }}",
    "{{ ''[('_', '_class_', '_')|join('')] }}",
    "{{ ''['-'.join(['__class', '']) ] }}",
    "{{ ''[''.join(['_', '_class_', '_'])] }}",
    "{{ ''['_ssalc_'|replace('_', '__')|reverse] }}",
    "{{ ''['ssalc_'[::-1] ~ '_' ~ 'x'] }}{{ ''['_' ~ '_ssalc'[::-1]] }}{{ ''['_' ~ ('ssalc_'[::-1])] }}",
    "{{ ''['xx_class'|replace('x', '_')] }}",
    "{{ ''['XXCLASSXX'|lower|replace('x', '_')] }}",
    "{{ ''['%s%sclass' % ('_', '_')] }}",
    "{{ ''['%s_class'|format('_')] }}",
    "{{ ''['{}{}class'.format('_', '_')] }}",
    "{{ ''['{0}{0}class'.format('_', '_')] }}",
    "{{ ''['%c%cclass' % (95, 95)] }}",
    "{{ ''['%c%cclass'|format(95, 95)] }}",
    "{{ ''['{:c}{:c}class'.format(95, 95)] }}",
    "{{ '{0.__class__}'.format(x) }}",
    "{{ '{0[__class__]}'.format(x) }}",
    "{{ ''['_' * 2 ~ 'class'] }}",
    "{{ ''['a__class__b'[1:-1]] }}",
    "{{ dict(__class__=1)|list|first }}",
    "{{ {'__class__': 1}|list }}",
    "{% set u = '_' %}{{ ''[u ~ u ~ 'class' ~ u ~ u] }}",
    "{% with u = '_' %}{{ ''[u ~ u ~ 'class'] }}{% endwith %}",
    "{% set u %}__class__{% endset %}{{ ''[u] }}",
    "{% macro m() %}__class__{% endmacro %}{{ ''[m()] }}",
    "{% if ''.__class__ %}{% endif %}",
    "{% for c in ''.__class__.__mro__ %}{{ c }}{% endfor %}",
    "{% set x = cycler.__init__.__globals__.os %}",
    "{{ lipsum.__globals__['os'].popen('id') }}",
    "{{ lipsum|string }}",
    "{{ cycler('a').next }}",
    "{{ joiner }}",
    "{{ self._TemplateReference__context }}",
    "{{ config.items() }}",
    "{{ request.application }}",
    "{{ os.system('id') }}",
    "{{ eval('1') }}",
    "{{ open('/etc/passwd').read() }}",
    "{% import 'os' as o %}",
    "{% from 'x' import y %}",
    "{% include '/etc/passwd' %}",
    "{% extends 'x' %}",
    "{{ (x for y in z).gi_frame.f_back }}",
    "{{ f.func_globals }}",
    "{{ x['gi' ~ '_frame'] }}",
    "{{ namespace.__init__ }}",
    "{# harmless #}{%- raw %}{{ a }}{% endraw -%}{{ x.__dict__ }}",
    "{{- x.__reduce__ -}}",
    "{{ {'a': {'b': 1}}}}{{ x.__class__ }}",
    "{{ 'a' if not ('_' ~ '_class') else 'b' }}",
    "text {{ ok }} text {{ x.__class__",
    // Texts that are put together in ways that are not followed.
    "{{ ''['class'.center(9, '_')] }}",
    "{{ ''['class'.ljust(7, '_').rjust(9, '_')] }}",
    "{{ ''['class'|center(9)|replace(' ', '_')] }}",
    "{% set u = '_'.center(1) %}{{ ''[u ~ u ~ 'class' ~ u ~ u] }}",
    "{% set k %}{{ '_' * 2 }}class{{ '_' * 2 }}{% endset %}{{ ''[k] }}",
    "{% set k | trim %} _ {% endset %}{{ ''[k] }}",
    "{% set k %}_{% if true %}_class_{% endif %}_{% endset %}{{ ''[k] }}",
    "{% macro u() %}_{{ '_' }}{% endmacro %}{{ ''[u() ~ 'class' ~ u()] }}",
    "{% macro u() %}_{{ '_class_' }}_{% endmacro %}{{ ''[u()] }}",
    "{% macro get(k) %}{{ ''[k] }}{% endmacro %}{{ get('_' * 2 ~ 'class') }}",
    "{% macro get(k) %}{{ ''[k] }}{% endmacro %}{{ get(k='_'.center(3, 'x')) }}",
    "{% macro get(k) %}{{ ''[k] }}{% endmacro %}{{ get(*['_' * n]) }}",
    "{% macro get(k) %}{{ ''[k] }}{% endmacro %}{% set g = get %}{{ g('_' * n) }}",
    "{% macro wrap() %}{{ caller('_' * n) }}{% endmacro %}{% call(k) wrap() %}{{ ''[k] }}{% endcall %}",
    "{{ ''[{'_': 1, '_class': 2}|join] }}",
    "{{ ''[dict(_=1, _class_=2)|join] }}",
    "{{ ''[dict(a='_', b='_class')['a'] ~ x] }}",
    "{{ ''['_ _class_ _'|replace(' ', x)] }}",
    "{{ ''['_<b>_class_</b>_'|striptags] }}",
    "{{ ''['{0}{0}{1}{0}{0}'.format('_', 'class')] }}",
    "{{ ''['{:_>2}class'.format('')] }}",
    "{{ ''['%s%s' | format('_', x)] }}",
    "{{ ''['x__class__x'.strip('x')] }}",
    "{% for k in 'x__class__x'.split('x') %}{{ ''[k] }}{% endfor %}",
    "{% for k in 'x__class__x'.split(x) %}{{ ''[k] }}{% endfor %}",
    "{% for k in ['_' * n] %}{{ ''[k] }}{% endfor %}",
    "{% for k in ['a'] recursive %}{{ ''[k] }}{{ loop(['_' * n]) }}{% endfor %}",
    "{% for m in messages if ''['_' * n] %}{% endfor %}",
    "{{ ''['_' * n if true else 'a'] }}",
    "{{ ''[('_' * n if true else 'a')] }}",
    "{% set u = 'a' %}{% if x %}{% set u = '_' %}{% endif %}{{ ''[u ~ u ~ 'class'] }}",
    "{% set u = '_' %}{% if false %}{% set u = 'a' %}{% endif %}{{ ''[u ~ u ~ 'class'] }}",
    "{% for i in range(2) %}{{ ''[k] }}{% set k = '_' * n %}{% endfor %}",
    "{% set ns = namespace(k='') %}{% for i in range(9) %}{{ ''[ns.k] }}{% set ns.k = ns.k ~ '_' %}{% endfor %}",
    "{% set a = b %}{% set b = c %}{% set c = '_' * n %}{{ ''[a] }}",
    "{% set l = [] %}{% do l.append('_' * n) %}{{ ''[l[0]] }}",
    "{% set l = [] %}{% set m = l %}{% set _ = m.append('_' * n) %}{{ ''[l[0]] }}",
    "{% do messages.append('_' * n) %}{{ ''[messages[-1]] }}",
    "{% set d = {'k': '_' * n} %}{{ ''[d.k] }}",
    "{% set d = {} %}{% do d.update(k='_' * n) %}{{ ''[d.k] }}",
    "{% set a, b = 'x', '_' * n %}{{ ''[b] }}",
    "{% with k = '_' * n %}{{ ''[k] }}{% endwith %}",
    "{{ ''['center'](9, '_') }}{{ ''[''['join'](x)] }}",
    "{{ [x]|map(attribute='_' * n)|list }}",
    "{{ [x]|selectattr('_' * n)|list }}",
    "{{ [x]|map('at' ~ 'tr', y)|list }}",
    "{{ [x]|map(f, y)|list }}",
    "{{ ('{0.' ~ x ~ '}').format(y) }}",
    "{{ -1|string|replace('-', '_')|replace('1', '_') ~ x }}{{ ''[-1|string|replace('-', '_')] }}",
    "{{ ''['a' ~ '_' * 2] }}",
    "{{ ''[x == y ~ z or '_' * n] }}",
    "{{ os == 1 }}",
];

/// Templates in the style of well-known families.
const STOCK: &[&str] = &[
    "",
    "no code at all, __class__ and {{",
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    "{{ bos_token }}{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate user/assistant') }}{% endif %}{% endfor %}",
    "{%- if messages[0]['role'] == 'system' %}{%- set system = messages[0]['content']|trim %}{%- set rest = messages[1:] %}{%- else %}{%- set system = '' %}{%- endif %}",
    "{%- set ns = namespace(found=false, last=messages|length - 1) %}{%- for m in messages[::-1] %}{%- set ns.found = true %}{%- endfor %}",
    "{{ '[INST] ' ~ content.strip() ~ ' [/INST]' }}",
    "{{ tools | tojson(indent=4) }}",
    "{%- for tool in tools | selectattr('type', 'equalto', 'function') | map(attribute='function') %}{{ tool.name }}{% endfor %}",
    "{%- macro render(item, depth=0) -%}{{ ' ' * depth }}{% if item is mapping %}{% for k, v in item.items() %}{{ k }}: {{ render(v, depth + 1) }}{% endfor %}{% endif %}{%- endmacro -%}",
    "{{ strftime_now('%d %b %Y') }}",
    "{{ 'Today is ' + date_string | default('26 Jul 2024', true) }}",
    "{%- if message.content is string %}{{ message.content }}{%- else %}{%- for part in message.content %}{%- if part.type == 'image' %}{{ '<|vision_start|><|image_pad|><|vision_end|>' }}{%- elif 'text' in part %}{{ part.text }}{%- endif %}{%- endfor %}{%- endif %}",
    "{% generation %}{{ message['content'] }}{% endgeneration %}",
    "{%- for m in messages %}{%- if loop.last %}{%- break %}{%- endif %}{%- endfor %}",
    "{{ '<｜begin▁of▁sentence｜>' + content + '<｜end▁of▁sentence｜>' }}",
    "{%- set content = message.content.split('</think>')[-1].lstrip('\\n') %}",
    "{%- if message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>') %}yes{%- endif %}",
    "{{- '<tools>' }}{%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}{%- endfor %}{{- '\\n</tools>\\n\\n' }}",
    "{{ '{\"name\": \"' + tool_call.name + '\", \"arguments\": ' + (tool_call.arguments | tojson) + '}' }}",
    "{{ 'Use <function_name> and {\"arguments\": {...}}, or _bold_ text.' | replace('_', '') }}{{ x }}",
    "{% set first_user_prefix = messages[0]['content'] + '\\n\\n' %}{{ first_user_prefix }}",
    "{% for key in ['a_', 'b_'] %}{{ key ~ '_c' }}{% endfor %}",
    "{{ message['tool_calls'] | map(attribute='id') | join(', ') }}",
    "{{ messages | rejectattr('role', 'equalto', 'system') | list | length }}",
    "{%- if tools is defined and tools is not none and tools | length > 0 %}{{ 'x' }}{%- endif %}",
    "{{ ('a' if add_generation_prompt else 'b') ~ eos_token }}",
    "{{ {'role': 'user', 'content': {'a': {}}} | tojson }}",
    "{%- set param_type = param.type | lower if param.type is string else 'any' %}",
    "{{ param_name ~ ': ' ~ ('%s' | format(param_type)) }}",
    "{{ 'Knowledge cutoff: {}'.format('2024-06') }}",
    "{%- for c in 'abc' | list | reverse %}{{ c }}{%- endfor %}",
    "{{ loop.cycle('odd', 'even') if loop else '' }}",
    "{{ '<start_of_turn>' + role + '\\n' + (message['content'] | trim) + '<end_of_turn>\\n' }}",
    "{# a comment with __class__ and os.system #}{{ 'ok' }}",
    "{% raw %}{{ ''.__class__ }}{% endraw %}{{ 'ok' }}",
    "{{ caller.name if message.self else message['open'] }}",
    "{%- set description = tool.description | replace('\\n', ' ') | replace('  ', ' ') %}",
    "{{ '%.2f' | format(score) }}{{ '%d items' % count }}",
    "{%- call(x) wrap() %}some _text_ {{ x }}{%- endcall %}",
    "{%- set text %}plain text, snake_case_{% endset %}{{ text }}",
    "{{ 'desc}'.format(1) }}{{ '{desc}' }}",
    "{%- if not loop.first and loop.previtem.role != message.role %}{{ '\\n' }}{%- endif %}",
    "{{ message.get('reasoning_content', '') or '' }}",
    "{{ render(tool, open=true, config=false) }}",
    // Subscripts that are computed but are not names.
    "{% for m in messages %}{{ messages[loop.index0 - 1].role }}{{ messages[loop.index0 + 1]['role'] }}{% endfor %}",
    "{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}{%- for message in messages[::-1] %}{%- set index = (messages|length - 1) - loop.index0 %}{%- if ns.multi_step_tool and message.role == 'user' %}{%- set ns.last_query_index = index %}{%- endif %}{%- endfor %}{{ messages[ns.last_query_index].content }}",
    "{{ ['user', 'assistant'][loop.index0 % 2] }}{{ ('a', 'b')[i] }}",
    "{%- set roles = {'user': 'Human', 'assistant': 'AI'} %}{{ roles[message['role']] }}{{ roles[message.role|trim] }}",
    "{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}{{ names[role] }}",
    "{%- for key in ['description', 'type'] %}{%- if key in tool %}{{ key ~ ': ' ~ tool[key] }}{%- endif %}{%- endfor %}",
    "{%- for tool in tools %}{%- for key, value in tool.items() if key != 'type' %}{{ tool[key]|tojson }}{{ value }}{%- endfor %}{%- endfor %}",
    "{%- macro items(spec, name) %}{{ spec[name] }}{{ spec.properties[name] }}{%- endmacro %}{%- for name, p in params|dictsort %}{{ items(params, name) }}{%- endfor %}",
    "{{ content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') }}{{ content[:-1] }}{{ content[i:j + 1] }}",
    "{% set i = 0 %}{% for m in messages %}{% set i = i + 1 %}{{ messages[i] }}{% endfor %}{{ messages[2 * 1] }}",
    "{% set parts = [] %}{% for m in messages %}{% set _ = parts.append('<' ~ m.role ~ '>') %}{% endfor %}{{ parts | join('\n') }}{{ messages[0]['role'] }}",
    "{% set content = 'a' ~ b %}{{ content }}{{ m['content'] }}{{ m.get('content', content) }}",
    "{{ message['tool_calls'][0]['function']['arguments'] if x is defined else '' }}",
    "{%- if message[key] is not none and message[key] is mapping %}{{ message[key] | tojson }}{%- endif %}",
    "{{ messages | map(attribute='content') | map('trim') | select('string') | join }}",
    "{{ message.content | selectattr('type', 'equalto', 'te' ~ x) | list | length }}",
];

#[test]
fn attacks_are_found() {
    for attack in ATTACKS {
        assert!(!dangers(attack).is_empty(), "{attack}");
    }
    assert!(ATTACKS.len() >= 60);
}

#[test]
fn templates_of_models_are_not_accused() {
    for template in STOCK {
        assert_eq!(dangers(template), [], "{template}");
    }
    assert!(STOCK.len() >= 40);
}

#[test]
fn a_finding_says_where() {
    let found = dangers("ok {{ a }} {{ x.__class__ }}");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].at, 16);
    assert_eq!(found[0].what, r#"it uses the name "__class__""#);
}

/// Wherever a template is cut, and however often a piece is repeated, a scan ends quickly.
#[test]
fn odd_templates_take_no_longer() {
    for template in ATTACKS.iter().chain(STOCK) {
        for end in (0..=template.len()).filter(|&end| template.is_char_boundary(end)) {
            dangers(&template[..end]);
        }
    }
    for piece in [
        "{{",
        "{%",
        "{#",
        "(",
        "{{(",
        "{{''.",
        "{{'a'~",
        "{{[",
        "{% raw %}",
        "{{''|lower",
        "'\\",
        "{{-",
        "{% set a = a ~ 'ab' %}",
    ] {
        dangers(&piece.repeat(100_000));
        dangers(&format!("{{{{{}", piece.repeat(100_000)));
    }
}
