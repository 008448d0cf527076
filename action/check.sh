#!/usr/bin/env bash
# Verifies and checks the model files of the git repository in this folder, and compares those that changed since the commit
# MODELFMT_BASE with what they were. Writes Markdown to GITHUB_STEP_SUMMARY (else prints it), and fails if a file is bad.
# MODELFMT_FILES: patterns of git, separated by spaces.
set -euo pipefail

read -r -a patterns <<<"${MODELFMT_FILES:-*.safetensors *.gguf *.aero *.apr *.mag *.oinf}"
base=${MODELFMT_BASE:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
summary=${GITHUB_STEP_SUMMARY:-$work/summary}
failed=0

# A block of text in Markdown. What is in a file cannot end it.
block() { printf '%s\n\n' "$1"; printf '```text\n'; tr '`' "'" <"$work/said"; printf '```\n\n'; }

# Runs a command about a file, and adds what it says to the summary if it fails, or always.
say() {
    local when=$1 title=$2 status=0
    shift 2
    "$@" >"$work/said" 2>&1 || status=$?
    cat "$work/said"
    if [[ $when == always ]] || ((status)); then block "$title" >>"$summary"; fi
    return "$status"
}

changed() { git diff --quiet "$base" -- "$1" && return 1 || return 0; }

count=0
printf '## Model files\n\n' >>"$summary"
while IFS= read -r -d '' file; do
    [[ -f $file ]] || continue
    name=$(printf '%s' "$file" | tr '`\n' "' ")
    count=$((count + 1))
    say failure "**\`$name\` is damaged or breaks a rule of its format**" modelfmt verify -- "$file" || { failed=1; continue; }
    say failure "**\`$name\` has values that look wrong**" modelfmt check -- "$file" || failed=1
    if [[ -n $base ]] && git cat-file -e "$base:./$file" 2>/dev/null && changed "$file"; then
        # By the filters of the repository, so that a file of git-lfs is the file and not its pointer.
        before="$work/before.${file##*.}"
        git cat-file --filters "$base:./$file" >"$before"
        say always "What changed in \`$name\`" modelfmt diff --norms -- "$before" "$file" || [[ $? == 1 ]] || failed=1
    fi
done < <(git ls-files -z -- "${patterns[@]}")
if ((failed)); then verdict="Something is wrong"; else verdict="All is well"; fi
printf '%s in %d model files.\n' "$verdict" "$count" >>"$summary"
[[ -n ${GITHUB_STEP_SUMMARY:-} ]] || cat "$summary"
exit "$failed"
