package main

import (
	"strconv"
	"strings"
)

// option is one of a command. A name of one letter is given as -s and may be joined with others (-sw), a longer one as
// --file or -file. arg names its value; empty: it has none.
type option struct {
	name, arg, help string
}

// invocation is a command's line, taken apart.
type invocation struct {
	cmd  *command
	opts map[string]string
	args []string
}

func (in *invocation) has(name string) bool { _, ok := in.opts[name]; return ok }

// version is the value of -v; -1, any version, without it.
func (in *invocation) version() (int32, error) {
	v, ok := in.opts["v"]
	if !ok {
		return -1, nil
	}
	return parseVersion(v)
}

func parseVersion(s string) (int32, error) {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		return 0, usagef("version %q: want a number", s)
	}
	return int32(n), nil
}

// parse applies the grammar of zkCli's commands: options stand anywhere, -- ends them, and a lone - is an argument.
func (c *command) parse(words []string) (*invocation, error) {
	in := &invocation{cmd: c, opts: map[string]string{}}
	for len(words) > 0 {
		w := words[0]
		words = words[1:]
		switch {
		case w == "--":
			in.args = append(in.args, words...)
			words = nil
		case strings.HasPrefix(w, "--") || c.isLong(w):
			name, value, inline := strings.Cut(strings.TrimLeft(w, "-"), "=")
			o := c.option(name)
			if o == nil {
				return nil, c.unrecognized(w)
			}
			if o.arg != "" && !inline {
				if len(words) == 0 {
					return nil, usagef("Missing argument for option: %s", o.name)
				}
				value, words = words[0], words[1:]
			}
			in.opts[o.name] = value
		case len(w) > 1 && w[0] == '-':
			var err error
			if words, err = in.short(w, words); err != nil {
				return nil, err
			}
		default:
			in.args = append(in.args, w)
		}
	}
	if len(in.args) < c.min || len(in.args) > c.max {
		return nil, c.wrongCall(in.args)
	}
	return in, nil
}

// wrongCall is a call with too few arguments, or too many: the usage, as zkCli prints it, and which.
func (c *command) wrongCall(args []string) error {
	if len(args) > c.max {
		return usagef("%s\nnot expected: %s", c.usageText(), strings.Join(args[c.max:], " "))
	}
	return usagef("%s\nmissing: %s", c.usageText(), strings.Join(c.arguments()[len(args):], " "))
}

// arguments are the names of those that there have to be.
func (c *command) arguments() []string {
	var out []string
	depth, value := 0, false // in brackets; the word is an option's
	for _, w := range strings.Fields(c.usage) {
		opens := strings.Count(w, "[")
		if depth+opens == 0 && w[0] != '-' && !value {
			out = append(out, w)
		}
		value = depth+opens == 0 && w[0] == '-'
		depth += opens - strings.Count(w, "]")
	}
	return out
}

// unrecognized is an option that a command has not. Those before it are often meant.
func (c *command) unrecognized(w string) error {
	name, _, _ := strings.Cut(strings.TrimLeft(w, "-"), "=")
	if name == "h" || name == "help" {
		return usagef("Unrecognized option: %s (\"zkcli help %s\" tells the options)", w, c.name)
	}
	for _, o := range globalOptions {
		if o, _, _ = strings.Cut(o, "\t"); name != "" && strings.TrimLeft(o, "-") == name {
			return usagef("Unrecognized option: %s (it stands before the command: zkcli %s ... COMMAND)", w, o)
		}
	}
	if len(w) > 1 && w[1] >= '0' && w[1] <= '9' {
		return usagef("Unrecognized option: %s (behind -- nothing is an option)", w)
	}
	return usagef("Unrecognized option: %s", w)
}

// short reads -s, -sw, -v 5, -v5 or -v=5.
func (in *invocation) short(w string, words []string) ([]string, error) {
	for i := 1; i < len(w); i++ {
		o := in.cmd.option(w[i : i+1])
		if o == nil {
			return nil, in.cmd.unrecognized(w)
		}
		if o.arg == "" {
			in.opts[o.name] = ""
			continue
		}
		value := strings.TrimPrefix(w[i+1:], "=")
		if value == "" {
			if len(words) == 0 {
				return nil, usagef("Missing argument for option: %s", o.name)
			}
			value, words = words[0], words[1:]
		}
		in.opts[o.name] = value
		break
	}
	return words, nil
}

// isLong tells -file from -f -i -l -e: zkCli's longer options have one dash.
func (c *command) isLong(w string) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(w, "-"), "=")
	return w[:min(1, len(w))] == "-" && len(name) > 1 && c.option(name) != nil
}

func (c *command) option(name string) *option {
	for i := range c.options {
		if c.options[i].name == name {
			return &c.options[i]
		}
	}
	return nil
}

// usageText is the command's usage and its options, as zkCli prints them for a wrong call.
func (c *command) usageText() string {
	var b strings.Builder
	b.WriteString(strings.TrimRight(c.name+" "+c.usage, " "))
	for _, o := range c.options {
		s := " -" + o.name
		if len(o.name) > 1 {
			s = " -" + s[1:]
		}
		if o.arg != "" {
			s += " <" + o.arg + ">"
		}
		b.WriteString("\n" + s + strings.Repeat(" ", max(2, 16-len(s))) + o.help)
	}
	return b.String()
}
