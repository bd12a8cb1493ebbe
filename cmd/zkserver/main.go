// Command zkserver runs a server of a zkserver ensemble: zkserver zoo.cfg. It imports server and server/config; the
// work is done there. Begin at main.go (commands), run.go (one server), profile.go (its profiles), ensemble.go (a whole ensemble on loopback).
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zkserver/zkserver/server/config"
)

// Exit codes: 0 a clean stop, 1 a fault while running, 2 a fault in the command line or the configuration.
const (
	exitFault = 1
	exitUsage = 2
)

// usageError marks what the operator must correct before trying again.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func main() {
	err := command().Execute()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "zkserver:", err)
	var usage usageError
	if errors.As(err, &usage) {
		os.Exit(exitUsage)
	}
	os.Exit(exitFault)
}

func command() *cobra.Command {
	var o runOptions
	root := &cobra.Command{
		Use:   "zkserver zoo.cfg",
		Short: "A coordination service that speaks ZooKeeper's protocol",
		Long: "zkserver zoo.cfg runs one server in the foreground until SIGTERM or SIGINT. The configuration file is that of\n" +
			"Apache ZooKeeper. SIGTERM hands leadership over, answers what is in flight and exits 0.",
		Args:          oneFile,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return noCommand(cmd, args[0], run(cmd.Context(), args[0], o))
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	o.addFlags(root)

	foreground := &cobra.Command{
		Use:   "start-foreground zoo.cfg",
		Short: "The same as zkserver zoo.cfg",
		Args:  oneFile,
		RunE:  func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), args[0], o) },
	}
	o.addFlags(foreground)
	root.AddCommand(foreground, versionCommand(), configCommand(), ensembleCommand())
	return root
}

func oneFile(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError{errors.New("want one argument, the configuration file (zoo.cfg); zkserver --help lists the commands")}
	}
	return nil
}

// noCommand says which commands there are when what was taken for a file is none, and looks like a word.
func noCommand(root *cobra.Command, word string, err error) error {
	if _, no := os.Stat(word); !errors.Is(no, fs.ErrNotExist) || !errors.Is(err, fs.ErrNotExist) || strings.ContainsAny(word, "./") {
		return err
	}
	names := make([]string, 0, len(root.Commands()))
	for _, c := range root.Commands() {
		names = append(names, c.Name())
	}
	return usageError{fmt.Errorf("%s: neither a file nor a command; the commands are %s", word, strings.Join(names, ", "))}
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) != 0 {
		return usageError{fmt.Errorf("%s takes no argument, not %q", cmd.CommandPath(), args[0])}
	}
	return nil
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArguments,
		Run:   func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), "zkserver", buildVersion()) },
	}
}

func configCommand() *cobra.Command {
	var flags config.Flags
	check := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a configuration file and say what each line that is not obeyed comes to",
		Args:  oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := config.Check(args[0], flags)
			for _, n := range c.Notices {
				kind := "note"
				if n.Warning {
					kind = "warning"
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s:%d: %s: %s: %s\n", args[0], n.Line, kind, n.Key, n.Text)
			}
			if err != nil {
				return usageError{err}
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: ok: server %d, %s, clients on %s\n", c.File, c.ServerID, ensembleSize(len(c.Servers)), c.ClientAddr)
			return nil
		},
	}
	parent := &cobra.Command{
		Use:   "config",
		Short: "Work with configuration files",
		RunE: func(*cobra.Command, []string) error {
			return usageError{errors.New("want zkserver config check FILE")}
		},
	}
	for _, c := range []*cobra.Command{check, parent} { // before "check" or behind it
		addConfigFlags(c, &flags)
	}
	parent.AddCommand(check)
	return parent
}

func ensembleSize(n int) string {
	if n == 1 {
		return "by itself"
	}
	return fmt.Sprintf("%d servers in all", n)
}

func addConfigFlags(cmd *cobra.Command, f *config.Flags) {
	cmd.Flags().StringVar(&f.MyID, "myid", os.Getenv("ZOO_MY_ID"), "this server's number; must agree with the file myid where there is one (environment: ZOO_MY_ID)")
	cmd.Flags().BoolVar(&f.Strict, "strict", false, "refuse unknown keys instead of warning of them")
}
