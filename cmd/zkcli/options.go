package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/zkserver/zkserver/client"
)

// options are what stands before the command.
type options struct {
	server     string        // host:port[,host:port...][/chroot]
	timeout    time.Duration // of the session
	wait       time.Duration // how long a command waits for a connection
	request    time.Duration // how long a command may take from one of its steps to the next; 0: wait and timeout
	wire       client.Wire
	readOnly   bool // a server in read-only mode will do
	format     format
	compatExit bool
	auth       []client.Auth
	help       bool
}

// connectWait is how long a command waits for a connection, unless -waitforconnection asks for the session's timeout. Tests make it longer.
var connectWait = 5 * time.Second

const optionsHelp = `usage: zkcli [options] [command [arguments]]

Without a command zkcli reads commands: from a terminal as a shell with completion and history, else line by line.

options:
  -server host:port[,host:port...][/chroot]   default localhost:2181, or $ZKCLI_SERVER
  -timeout ms            session timeout, default 30000
  -waitforconnection     wait for a connection as long as the session timeout, not 5 s
  -r                     a server in read-only mode will do
  -client-configuration file   properties of the Java client; what asks for more security than there is, is refused
  -wire zookeeper|grpc   protocol, default zookeeper or $ZKCLI_WIRE
  -auth scheme:data      credentials, as digest:user:password; repeatable; default $ZKCLI_AUTH
  -o text|json|raw       output; raw prints a node's data as it is and lists one to a line
  --compat-exit          exit codes of zkCli: 0, 1, 127

exit codes: 0 ok, 1 failed, 2 usage, 3 no connection or outcome unknown, 4 no such node, 5 node exists,
            6 version does not match, 7 not permitted
`

// parseOptions reads the options before the command. A leading -- is as good as -. It gives the defaults together with an error,
// as far as it got.
func parseOptions(args []string, getenv func(string) string) (o options, rest []string, err error) {
	o = options{server: "localhost:2181", timeout: 30 * time.Second}
	if s := getenv("ZKCLI_SERVER"); s != "" {
		o.server = s
	}
	if s := getenv("ZKCLI_WIRE"); s != "" {
		if o.wire, err = parseWire(s); err != nil {
			return o, nil, fmt.Errorf("ZKCLI_WIRE: %w", err)
		}
	}
	waitAll := false
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		name := strings.TrimPrefix(strings.TrimPrefix(args[0], "-"), "-")
		name, value, inline := strings.Cut(name, "=")
		args = args[1:]
		needValue := func() bool {
			if inline {
				return true
			}
			if len(args) == 0 {
				err = usagef("Error: no argument found for option -%s", name)
				return false
			}
			value, args = args[0], args[1:]
			return true
		}
		switch name {
		case "server":
			if needValue() {
				o.server = value
			}
		case "timeout":
			if needValue() {
				ms, e := strconv.ParseInt(value, 10, 32)
				if e != nil || ms <= 0 {
					err = usagef("-timeout %q: want milliseconds", value)
				}
				o.timeout = time.Duration(ms) * time.Millisecond
			}
		case "o", "output":
			if needValue() {
				if o.format, err = parseFormat(value); err != nil {
					err = usagef("-o %q: want text, json or raw", value)
				}
			}
		case "auth":
			if needValue() {
				var a client.Auth
				if a, err = parseAuth(value); err == nil {
					o.auth = append(o.auth, a)
				}
			}
		case "r":
			o.readOnly = true
		case "wire":
			if needValue() {
				o.wire, err = parseWire(value)
			}
		case "client-configuration":
			if needValue() {
				err = o.readClientConfiguration(value)
			}
		case "waitforconnection":
			waitAll = true
		case "compat-exit":
			o.compatExit = true
		case "h", "help":
			o.help = true
		default:
			err = usagef("Unrecognized option: -%s (zkcli -help tells the options)", name)
		}
		if err != nil {
			return o, nil, err
		}
	}
	if s := getenv("ZKCLI_AUTH"); s != "" && o.auth == nil {
		a, err := parseAuth(s)
		if err != nil {
			return o, nil, fmt.Errorf("ZKCLI_AUTH: %w", err)
		}
		o.auth = []client.Auth{a}
	}
	if _, _, err := client.ParseConnect(o.server); err != nil {
		return o, nil, usagef("-server: %v", err)
	}
	if o.readOnly && o.wire == client.GRPC {
		return o, nil, usagef("-r: read-only servers are served on the ZooKeeper wire only")
	}
	o.wait = min(o.timeout, connectWait)
	if waitAll {
		o.wait = o.timeout
	}
	return o, args, nil
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
