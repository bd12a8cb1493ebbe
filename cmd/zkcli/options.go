package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/zkserver/zkserver/client"
)

// options are what stands before the command.
type options struct {
	name       string        // @NAME, of an ensemble of the configuration file
	server     string        // host:port[,host:port...][/chroot]
	timeout    time.Duration // of the session
	wait       time.Duration // how long a command waits for a connection
	request    time.Duration // how long a command may take from one of its steps to the next; 0: wait and timeout
	wire       client.Wire
	readOnly   bool // a server in read-only mode will do
	format     format
	compatExit bool
	auth       []client.Auth
	instead    string // the command that an option stands for: help or version

	file  string          // of the ensembles' configuration
	given map[string]bool // by flags, which win over that file
	plain *options        // as they are without an ensemble's
}

// waits are how long things are waited for. Tests, on busy machines, have more patience.
var waits = struct{ connect, prompt, names, shell time.Duration }{
	connect: 5 * time.Second,        // a command, for its connection, unless -waitforconnection asks for the session's timeout
	prompt:  time.Second,            // the shell's first prompt, for the connection
	names:   500 * time.Millisecond, // a key, for the names of children
	shell:   time.Second,            // another shell's key, for those and the connection before
}

const optionsHelp = `usage: zkcli [options] [command [arguments]]

With a command zkcli does that and ends. Without one it reads commands: from a terminal as a shell with completion and
history, else line by line.

options:
  -server host:port[,host:port...][/chroot]   default $ZKCLI_SERVER, else localhost:2181
  -server @NAME[/path]   an ensemble of the configuration file, see "zkcli help ensembles"
  -timeout ms            session timeout, default 30000
  -waitforconnection     wait for a connection as long as the session timeout, not 5 s
  -r                     a server in read-only mode will do
  -client-configuration file   properties of the Java client; what asks for more security than there is, is refused
  -wire zookeeper|grpc   protocol, default $ZKCLI_WIRE, else zookeeper
  -auth scheme:data      credentials, as digest:user:password; repeatable; default $ZKCLI_AUTH
  -o text|json|raw       output; raw prints a node's data as it is, lists one to a line, and what is created
  --compat-exit          exit codes of zkCli: 0, 1, 127
  -help, --version       this text; the version

exit codes: 0 ok, 1 failed (diff: they differ), 2 usage, 3 no connection or outcome unknown, 4 no such node,
            5 node exists, 6 version does not match, 7 not permitted, 130 interrupted by Ctrl-C (0: watch without -c);
            elect and lock: the command's own, 123 not had in time, 124 lost while it ran, 126 and 127 not startable
environment: NO_COLOR (no colours on a terminal), ZKCLI_HISTORY (file of the shell's history), ZKCLI_CONFIG
`

// parseOptions reads the options before the command. A leading -- is as good as -. It gives the defaults together with an error,
// as far as it got.
func parseOptions(args []string, getenv func(string) string) (o options, rest []string, err error) {
	o = options{server: "localhost:2181", timeout: 30 * time.Second, file: configFile(getenv), given: map[string]bool{}}
	server := getenv("ZKCLI_SERVER")
	if s := getenv("ZKCLI_WIRE"); s != "" {
		if o.wire, err = parseWire(s); err != nil {
			return o, nil, fmt.Errorf("ZKCLI_WIRE: %w", err)
		}
	}
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		name := strings.TrimPrefix(strings.TrimPrefix(args[0], "-"), "-")
		name, value, inline := strings.Cut(name, "=")
		args = args[1:]
		if takesValue(name) && !inline {
			if len(args) == 0 {
				return o, nil, usagef("Error: no argument found for option -%s", name)
			}
			value, args = args[0], args[1:]
		}
		if name == "server" {
			server = value
		} else if err := o.set(name, value); err != nil {
			return o, nil, err
		}
		o.given[name] = true
	}
	if s := getenv("ZKCLI_AUTH"); s != "" && o.auth == nil {
		a, err := parseAuth(s)
		if err != nil {
			return o, nil, fmt.Errorf("ZKCLI_AUTH: %w", err)
		}
		o.auth = []client.Auth{a}
	}
	base := o
	o.plain = &base
	if o.instead != "" || len(args) > 0 && needsNoServer(args[0]) {
		return o, args, nil // also where the configuration is wrong
	}
	to, err := o.to(server)
	if err != nil {
		return o, nil, err
	}
	return to, args, nil
}

func needsNoServer(command string) bool {
	switch command {
	case "help", "ensembles", "completion", "version":
		return true
	}
	return false
}

func takesValue(option string) bool {
	switch option {
	case "server", "timeout", "o", "output", "auth", "wire", "client-configuration":
		return true
	}
	return false
}

// set takes one option but -server.
func (o *options) set(name, value string) (err error) {
	switch name {
	case "timeout":
		o.timeout, err = parseTimeout(value)
	case "o", "output":
		if o.format, err = parseFormat(value); err != nil {
			err = usagef("-o %q: want text, json or raw", value)
		}
	case "auth":
		var a client.Auth
		if a, err = parseAuth(value); err == nil {
			o.auth = append(o.auth, a)
		}
	case "r":
		o.readOnly = true
	case "wire":
		o.wire, err = parseWire(value)
	case "client-configuration":
		err = o.readClientConfiguration(value)
	case "waitforconnection", "compat-exit":
		o.compatExit = o.compatExit || name == "compat-exit"
	case "h", "help":
		o.instead = "help"
	case "version":
		o.instead = "version"
	default:
		err = usagef("Unrecognized option: -%s (zkcli -help tells the options)", name)
	}
	return err
}

// to gives the options for another ensemble, by its servers or its @NAME; empty: the default.
func (o options) to(server string) (options, error) {
	base := o.plain
	o = *base
	o.plain = base
	if err := o.choose(server); err != nil {
		return o, err
	}
	if _, _, err := client.ParseConnect(o.server); err != nil {
		return o, usagef("-server: %v", err)
	}
	if o.readOnly && o.wire == client.GRPC {
		return o, usagef("-r: read-only servers are served on the ZooKeeper wire only")
	}
	o.wait = min(o.timeout, waits.connect)
	if o.given["waitforconnection"] {
		o.wait = o.timeout
	}
	return o, nil
}

// shown is what people know the ensemble by.
func (o *options) shown() string { return cmp.Or(o.name, o.server) }

func parseTimeout(s string) (time.Duration, error) {
	ms, err := strconv.ParseInt(s, 10, 32)
	if err != nil || ms <= 0 {
		return 0, usagef("-timeout %q: want milliseconds", s)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

func parseWire(s string) (client.Wire, error) {
	for _, w := range []client.Wire{client.ZooKeeper, client.GRPC} {
		if s == w.String() {
			return w, nil
		}
	}
	return 0, usagef("-wire %q: want zookeeper or grpc", s)
}

// parseAuth reads scheme:data. Its errors never repeat the data.
func parseAuth(s string) (client.Auth, error) {
	scheme, data, ok := strings.Cut(s, ":")
	if !ok || scheme == "" {
		return client.Auth{}, usagef("credentials: want scheme:data, as digest:user:password")
	}
	return client.Auth{Scheme: scheme, Data: []byte(data)}, nil
}
