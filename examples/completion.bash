# Completes the flags of the programs, the commands of plan and checkpoint, and schedules' names:
#   source examples/completion.bash
# It offers what the programs say themselves: --help and plan schedules. Not here: values of other
# flags, and zsh (autoload -U bashcompinit && bashcompinit reads this file).

# Fills COMPREPLY for the program $1, where the word $2 is typed after the word $3.
_plangrad() {
  local program=$1 name=${1##*/} word=$2 before=$3 command=() words=
  [[ $name =~ ^(plan|checkpoint)$ ]] && ((COMP_CWORD > 1)) && command=("${COMP_WORDS[1]}")
  if [[ $word == -* ]]; then
    words=$("$program" "${command[@]}" --help | sed -n 's/^  \(--*[a-z0-9-]*\).*/\1/p')
  elif [[ $before == --schedule || ${command[*]} == compare ]]; then
    words=$("${program%"$name"}plan" schedules | sed -n 's/^\([^ ][^ ]*\) .*/\1/p')
  elif ((COMP_CWORD == 1)); then
    words=$("$program" --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
  fi 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -o default -F _plangrad plan train_gpt train_resnet sample_gpt train_vocabulary \
  checkpoint elastic report
