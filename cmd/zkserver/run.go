package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/zkserver/zkserver/server"
	"github.com/zkserver/zkserver/server/config"
)

type runOptions struct {
	config   config.Flags
	logLevel string
	rebuild  bool
	pprof    string
}

func (o *runOptions) addFlags(cmd *cobra.Command) {
	addConfigFlags(cmd, &o.config)
	cmd.Flags().BoolVar(&o.rebuild, "rebuild-state", false, "start although dataDir's state is missing: take a snapshot from the leader, and do not vote before that")
	cmd.Flags().StringVar(&o.pprof, "pprof", "", "serve profiles of this process on an address of the loopback, such as 127.0.0.1:6060")
	cmd.Flags().StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
}

// run serves until a signal or a fatal fault. A second signal does not wait for the drain.
func run(ctx context.Context, file string, o runOptions) error {
	level, err := zerolog.ParseLevel(o.logLevel)
	if err != nil {
		return usageError{fmt.Errorf("--log-level=%s: allowed are debug, info, warn and error", o.logLevel)}
	}
	if o.pprof != "" {
		p, err := startProfiler(o.pprof)
		if err != nil {
			return err
		}
		defer p.stop()
	}
	c, err := config.Load(file, o.config)
	if err != nil {
		return usageError{err}
	}
	log := newLogger(os.Stderr).Level(level)
	for _, n := range c.Notices {
		level := zerolog.InfoLevel
		if n.Warning {
			level = zerolog.WarnLevel
		}
		log.WithLevel(level).Str("key", n.Key).Int("line", n.Line).Str("text", n.Text).Msg("configuration")
	}
	chooseMemory(log)
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	s, err := server.New(c, server.Options{Log: log, Version: buildVersion(), Rebuild: o.rebuild})
	if err != nil {
		return err
	}
	go func() { // ends with the process: after the first signal the next one kills as usual
		<-ctx.Done()
		stop()
	}()
	settleMemory()
	return s.Run(ctx)
}

// newLogger writes for people on a terminal and JSON otherwise, with times to the millisecond.
func newLogger(w io.Writer) zerolog.Logger {
	zerolog.TimeFieldFormat = logTime
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		w = zerolog.ConsoleWriter{Out: f, TimeFormat: "15:04:05.000"}
	}
	return zerolog.New(w).With().Timestamp().Logger()
}

const logTime = "2006-01-02T15:04:05.000Z07:00"

// buildVersion is the module's version, or the commit it was built from.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	version := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && (version == "" || version == "(devel)") && len(s.Value) >= 12 {
			version = s.Value[:12]
		}
	}
	if version == "" {
		version = "devel"
	}
	return version
}
