package main

import (
	"io"
	"os"
)

func main() {
	os.Exit(run(os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program: it returns the exit code.
func run(args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 2 && args[0] == completeWord {
		completeLine(args[1], getenv, &printer{out: stdout, err: io.Discard})
		return exitOK
	}
	o, rest, err := parseOptions(args, getenv)
	p := newPrinter(stdout, stderr, o.format, getenv)
	if err != nil {
		p.failure(err)
		return exitCode(err, o.compatExit)
	}
	s := &session{o: o, p: p, stdin: stdin}
	s.printWatches.Store(true)
	defer s.close()
	switch {
	case o.instead != "":
		return exitCode(s.execute([]string{o.instead}), o.compatExit)
	case len(rest) > 0:
		return exitCode(s.execute(rest), o.compatExit)
	case isTerminal(stdin) && isTerminal(stdout):
		return s.shell(getenv)
	}
	return s.script(stdin)
}
