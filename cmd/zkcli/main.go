package main

import (
	"io"
	"os"

	"golang.org/x/term"
)

func main() {
	os.Exit(run(os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program: it returns the exit code.
func run(args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, rest, err := parseOptions(args, getenv)
	p := &printer{out: stdout, err: stderr, format: o.format, tty: isTerminal(stdout)}
	if err != nil {
		p.failure(err)
		return exitCode(err, o.compatExit)
	}
	s := &session{o: o, p: p, stdin: stdin}
	s.printWatches.Store(true)
	defer s.close()
	switch {
	case o.help:
		return exitCode(s.execute([]string{"help"}), o.compatExit)
	case len(rest) > 0:
		return exitCode(s.execute(rest), o.compatExit)
	case isTerminal(stdin) && isTerminal(stdout):
		return s.shell(getenv)
	}
	return s.script(stdin)
}

func isTerminal(v any) bool {
	f, ok := v.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
