package main

import (
	"context"
	"strings"

	"github.com/zkserver/zkserver/client"
)

// completeWord, as the only word, makes zkcli print what the last word of a line may become: the shells' scripts call it.
const completeWord = "__complete"

// completions are the scripts by shell. A script knows nothing itself but how its shell asks.
var completions = map[string]string{
	"bash": `_zkcli() {
  local line=${COMP_LINE:0:COMP_POINT} value
  local word=${line##*[[:space:]]} IFS=$'\n'
  COMPREPLY=()
  for value in $(zkcli __complete "$line" 2>/dev/null); do
    value=${value%%$'\t'*}
    COMPREPLY+=("${value#"${word%"${word##*[:=]}"}"}")
  done
  [[ ${COMPREPLY[0]} == /* ]] && compopt -o nospace
  return 0
}
complete -o default -F _zkcli zkcli`,
	"zsh": `(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
_zkcli() {
  local -a lines values shown
  lines=("${(@f)$(zkcli __complete "${(j: :)words[1,CURRENT]}" 2>/dev/null)}")
  lines=("${(@)lines:#}")
  (( $#lines )) || { _files; return }
  values=("${(@)lines%%$'\t'*}")
  shown=("${(@)lines/$'\t'/  -- }")
  if [[ $values[1] == /* ]]; then
    compadd -S '' -a values
  else
    compadd -l -d shown -a values
  fi
}
compdef _zkcli zkcli`,
	"fish": `function __zkcli_complete
  zkcli __complete (commandline -cp) 2>/dev/null
end
complete -c zkcli -e
complete -c zkcli -a '(__zkcli_complete)'`,
}

// completion prints a script that teaches a shell the commands and their options, the names of ensembles and the paths
// of nodes.
func completion(_ context.Context, s *session, in *invocation) error {
	script, ok := completions[in.args[0]]
	if !ok {
		return usagef("%s: want bash, zsh or fish", in.args[0])
	}
	s.p.line("%s", script)
	return nil
}

// completeLine prints what the last word of a shell's line may become, a line each, with a tab and a description where
// there is one. Nothing: the shell's own files will do.
func completeLine(line string, getenv func(string) string, p *printer) {
	fields := strings.Fields(line)
	word := ""
	if len(fields) > 0 && !strings.HasSuffix(line, " ") {
		word, fields = fields[len(fields)-1], fields[:len(fields)-1]
	}
	if len(fields) == 0 {
		return // the program's name is the shell's
	}
	fields = fields[1:]
	before, wants := 0, "" // where the command is; the option that the word is the value of
	for before < len(fields) && strings.HasPrefix(fields[before], "-") && wants == "" {
		name := strings.TrimLeft(fields[before], "-")
		before++
		if takesValue(name) {
			if before == len(fields) {
				wants = name
			}
			before++
		}
	}
	var values []string
	o, _, err := parseOptions(fields[:min(before, len(fields))], getenv)
	switch {
	case wants != "":
		values = optionValues(wants, o.file)
	case before >= len(fields) && strings.HasPrefix(word, "-"):
		values = globalOptions
	case err != nil && strings.HasPrefix(word, "/"):
	default:
		s := &session{o: o, p: p, interactive: false, progress: func() {}}
		defer s.close()
		if strings.HasPrefix(word, "/") && before < len(fields) {
			s.o.wait = min(s.o.wait, waits.shell)
			ctx, cancel := context.WithTimeout(context.Background(), waits.shell)
			defer cancel()
			if _, err := s.client(ctx); err != nil {
				return
			}
		}
		values = s.candidates(fields[min(before, len(fields)):], word)
	}
	for _, v := range values {
		if plain, _, _ := strings.Cut(v, "\t"); strings.HasPrefix(plain, word) {
			p.line("%s", v)
		}
	}
}

// globalOptions stand before the command.
var globalOptions = []string{
	"-server\thost:port[,host:port...][/chroot] or @NAME", "-timeout\tof the session, in ms", "-waitforconnection\tas long as the session timeout",
	"-r\ta read-only server will do", "-client-configuration\tproperties of the Java client", "-wire\tzookeeper or grpc",
	"-auth\tscheme:data", "-o\ttext, json or raw", "--compat-exit\texit codes of zkCli", "-help\tlists all",
}

// optionValues are what an option before the command may have.
func optionValues(name, file string) []string {
	switch name {
	case "o", "output":
		return []string{"text", "json", "raw"}
	case "wire":
		return []string{client.ZooKeeper.String(), client.GRPC.String()}
	case "server":
		return ensembleNames(file)
	}
	return nil
}

func ensembleNames(file string) []string {
	all, err := readEnsembles(file)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range all.list {
		out = append(out, "@"+e.name+"\t"+e.server)
	}
	return out
}

// candidates are what a word may become behind others: a command, an option, an argument, or the path of a child.
// Behind a tab there is a description.
func (s *session) candidates(fields []string, word string) []string {
	if len(fields) == 0 {
		var out []string
		for _, c := range commands() {
			out = append(out, c.name+"\t"+c.summary)
		}
		return out
	}
	c := commandNamed(fields[0])
	switch {
	case c == nil:
	case len(fields) > 1 && fields[len(fields)-1] == "--to", c.name == "connect":
		return ensembleNames(s.o.file)
	case strings.HasPrefix(word, "-"):
		var out []string
		for _, o := range c.options {
			dash := "-"
			if len(o.name) > 1 {
				dash = "--"
			}
			out = append(out, dash+o.name+"\t"+o.help)
		}
		return out
	case c.name == "help" && len(fields) == 1:
		return s.candidates(nil, word)
	case c.name == "completion":
		return []string{"bash", "zsh", "fish"}
	case c.name == "printwatches":
		return []string{"on", "off"}
	case strings.HasPrefix(word, "/"):
		return s.childPaths(word)
	}
	return nil
}
