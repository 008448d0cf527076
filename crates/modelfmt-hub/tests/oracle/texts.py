"""Texts on which tokenizers are compared: scripts, digits, white space, emoji, code, special tokens."""

TEXTS = [
    "", " ", "  ", "   ", "\t", "\n", "\n\n", "\n\n\n", "\r\n", "\t\n \t\t", "a", " a", "a ", "  a", "a  ", "a   b", "  a  b  ",
    "Hello", "Hello world", " Hello", "Hello World", " Hello World!", "Hello, world!", "Hello, y'all! How are you?",
    "this is 🦙.cpp", "w048 7tuijk dsdfhu", "нещо на Български", "កាន់តែពិសេសអាចខលចេញ",
    "🚀 (normal) 😶‍🌫️ (multiple emojis concatenated) ✅ (only emoji that has its own token)",
    "1", "12", "123", "1234", "12345", "123456", "1234567", "12345678", "3.3 3..3 3...3", "a1b22c333d4444", " 1 22 333 4444",
    "١٢٣٤ ٥", "Ⅷ ½ ² x³", "I've been 'told he's there, 'RE you sure? 'M not sure I'll make it, 'D you like some tea? We'Ve a'lL",
    "don't DON'T won't it's IT'S", "''''''```````\"\"\"\"......!!!!!!??????", "------======= ~~~ ^^^ $$$ +++ <<>>", "a.b,c;d:e!f?g",
    "x = (y + 3) * 2 - z / 4.5e-10;", "def f(x):\n    if x > 3:\n        return x ** 2\n\n    return None\n",
    "for (int i = 0; i < n; ++i) {\n\tsum += a[i];\n}\n", "fn main() {\r\n    println!(\"{}\", 1);\r\n}\r\n", "<html>\n  <body class=\"a\">x</body>\n</html>",
    "https://example.org/a/b?c=d&e=f#g", "user@example.org", "C:\\Users\\me\\file.txt", "a_b_c __init__ camelCase PascalCase SCREAMING_CASE",
    "我想在apple工作1314151天～", "今天天气很好。", "日本語のテキストです。カタカナもあります。", "한국어 텍스트입니다.", "ภาษาไทย", "हिन्दी में लिखा हुआ",
    "עברית", "مرحبا بالعالم", "Ελληνικά", "Русский язык", "Українська мова", "Հայերեն", "ქართული", "አማርኛ", "Tiếng Việt", "naïve café déjà vu",
    "Straße Ärger ÖSTERREICH", "ñandú ÑANDÚ", "ĳ ﬁ ǆ ß", "Å Å", "e\u0301 a\u0308", "ŒUVRE œuvre", "İstanbul ısı", "ＦＵＬＬ　ｗｉｄｔｈ",
    "…—–‘’“”«»", "© ® ™ ° ± × ÷ √ ∞ ≠", "→ ← ↑ ↓ ⇒ ∀x∈S", "€5 £6 ¥7 $8 50% #9 @10", "👍🏽👨‍👩‍👧‍👦🏳️‍🌈", "a\u00a0b", "a\u200bb", "a\u3000b", "tab\tbetween\ttabs",
    "line\n\n\nline\n\n\n\nline", " \n \n ", "trailing   ", "\n    indented\n        more\n", "a" * 40, "ab" * 30, " " * 20, "\n" * 12, "=" * 33,
    "aaaa bbbb cccc", "The quick brown fox jumps over the lazy dog. 0123456789", "MiXeD cAsE wOrDs", "one,two , three ,four", "(a) [b] {c} <d>",
    "{\"key\": [1, 2.5, null, true], \"名前\": \"値\"}", "# Title\n\n- item\n- item\n\n```rust\nlet x = 1;\n```\n", "x²+y²=z²", "100,000.00", "2026-11-26T05:30:00Z",
]

SPECIAL = ["<|endoftext|>", "a<|endoftext|>b", "<|user|>Hi<|endoftext|>\nHello <|user|> there", "x<|user|><|user|>y<|endoftext|>"]
