package main

import (
	"context"
	"fmt"
	"strings"
)

// completion prints a script that teaches a shell the commands and their options.
func completion(_ context.Context, s *session, in *invocation) error {
	var names []string
	options := func(c *command) string {
		var out []string
		for _, o := range c.options {
			if len(o.name) == 1 {
				out = append(out, "-"+o.name)
			} else {
				out = append(out, "--"+o.name)
			}
		}
		return strings.Join(out, " ")
	}
	for _, c := range commands() {
		names = append(names, c.name)
	}
	all := strings.Join(names, " ")
	var b strings.Builder
	switch in.args[0] {
	case "bash", "zsh":
		if in.args[0] == "zsh" {
			b.WriteString("autoload -U +X bashcompinit && bashcompinit\n")
		}
		b.WriteString("_zkcli() {\n  local word=${COMP_WORDS[COMP_CWORD]} cmd= w\n  for w in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n    case $w in\n")
		for _, c := range commands() {
			fmt.Fprintf(&b, "      %s) cmd=$w; break ;;\n", c.name)
		}
		b.WriteString("    esac\n  done\n  case $cmd in\n")
		fmt.Fprintf(&b, "    '') COMPREPLY=($(compgen -W '%s' -- \"$word\")) ;;\n", all)
		for _, c := range commands() {
			if o := options(c); o != "" {
				fmt.Fprintf(&b, "    %s) COMPREPLY=($(compgen -W '%s' -- \"$word\")) ;;\n", c.name, o)
			}
		}
		b.WriteString("  esac\n}\ncomplete -F _zkcli zkcli")
	case "fish":
		fmt.Fprintf(&b, "complete -c zkcli -f\n")
		for _, c := range commands() {
			fmt.Fprintf(&b, "complete -c zkcli -n 'not __fish_seen_subcommand_from %s' -a %s -d '%s'\n", all, c.name, strings.ReplaceAll(c.summary, "'", `\'`))
			for _, o := range c.options {
				flag := "-s " + o.name
				if len(o.name) > 1 {
					flag = "-l " + o.name
				}
				fmt.Fprintf(&b, "complete -c zkcli -n '__fish_seen_subcommand_from %s' %s -d '%s'\n", c.name, flag, strings.ReplaceAll(o.help, "'", `\'`))
			}
		}
	default:
		return usageError{in.cmd.usageText()}
	}
	s.p.line("%s", strings.TrimRight(b.String(), "\n"))
	return nil
}
