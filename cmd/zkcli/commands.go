package main

import (
	"context"
	"strings"
)

// command is one of zkCli's.
type command struct {
	name, usage, summary string
	options              []option
	example              string // of a command that zkCli has not
	more                 string // what there is to say besides
	min, max             int    // arguments
	long                 bool   // Ctrl-C ends the command, which then says how far it came
	endless              bool   // it may be silent for as long as it likes
	signals              bool   // it sees to them itself
	run                  func(ctx context.Context, s *session, in *invocation) error
}

// noLimit is the max of a command that ignores further arguments.
const noLimit = 1 << 30

// commands are in the order in which help lists them. Usages and options are zkCli's; --file and help are ours.
func commands() []*command {
	stat := option{name: "s", help: "Print znode stats additionally"}
	watch := option{name: "w", help: "Watch for changes on the znode"}
	version := option{name: "v", arg: "version", help: "Only if this is the current version"}
	file := option{name: "file", arg: "path", help: "Take the data from a file, - is standard input"}
	dry := option{name: "dry-run", help: "Change nothing, print what would be"}
	force := option{name: "f", help: "Nodes that exist are made equal, not refused"}
	depth := option{name: "d", arg: "depth", help: "No deeper than this"}
	parents := option{name: "p", help: "Make what is missing above it, open to everybody"}
	batch := option{name: "b", arg: "size", help: "Nodes per transaction, default 1000"}
	holder := []option{
		{name: "w", arg: "ms", help: "Wait so long at most, default without end; exit code 123 then"},
		{name: "id", arg: "text", help: "Who takes part, to people; default host and process"},
		{name: "grace", arg: "ms", help: "From SIGTERM to SIGKILL when it is lost, default a quarter of the session's timeout, a third at most"},
	}
	return []*command{
		{
			name: "addWatch", usage: "[-m mode] path", summary: "watch a node or a tree, for good", min: 1, max: 1, run: addWatch,
			options: []option{{name: "m", arg: "mode", help: "PERSISTENT or PERSISTENT_RECURSIVE, the default"}},
		},
		{
			name: "addauth", usage: "scheme auth", summary: "add credentials to the session",
			min: 2, max: 2, run: addAuth,
		},
		{
			name: "bench", usage: "[-n nodes] [-c clients] [-b bytes] [-t ms] [path]", summary: "measure the ensemble; what it makes is removed", max: 1, run: bench, long: true,
			example: "zkcli bench -n 5000 -c 20",
			options: []option{
				{name: "n", arg: "nodes", help: "How many, default 2000"},
				{name: "c", arg: "clients", help: "At a time, each with a session of its own, default 8"},
				{name: "b", arg: "bytes", help: "Of data in each node, default 100"},
				{name: "t", arg: "ms", help: "For each kind of operation at most, default 5000"},
			},
			more: "The nodes are ephemeral, in a container below path (default /): the server removes them even if zkcli is killed.\n" +
				"Each client waits for every answer: rates are of so many clients, not the most that the ensemble can do.",
		},
		{name: "close", summary: "end the session", run: closeSession},
		{
			name: "config", usage: "[-c] [-w] [-s]", summary: "print the ensemble's configuration", run: configNode,
			options: []option{{name: "c", help: "Only the version and the clients' connection string"}, watch, stat},
		},
		{
			name: "completion", usage: "bash|zsh|fish", summary: "print a script that completes commands", min: 1, max: 1, run: completion,
			example: "source <(zkcli completion bash)",
		},
		{name: "connect", usage: "host:port|@NAME", summary: "begin a new session", max: 1, run: connect},
		{
			name: "cp", usage: "[-r] [-f] [-p] [--dry-run] from to", summary: "copy a node or a tree, with ACLs", min: 2, max: 2, run: copyNodes, long: true,
			example: "zkcli cp -r /app /app-before",
			options: []option{{name: "r", help: "With all below"}, force, parents, dry},
		},
		{
			name: "create", usage: "[-s] [-e] [-c] [-t ttl] [-p] path [data] [acl]", summary: "create a node", min: 1, max: 3, run: create,
			options: []option{
				{name: "s", help: "Append a sequence number"},
				{name: "e", help: "Ephemeral: ends with the session"},
				{name: "c", help: "Container: removed some time after its last child"},
				{name: "t", arg: "ttl", help: "Removed when unchanged and childless for so many ms"},
				parents, file,
			},
		},
		{
			name: "delete", usage: "[-v version] path", summary: "delete a node without children", min: 1, max: 2, run: deleteNode,
			options: []option{version},
		},
		{
			name: "deleteall", usage: "path [-b batch size]", summary: "delete a node and all below it", min: 1, max: 1, run: deleteAll,
			options: []option{batch},
		},
		{
			name: "delquota", usage: "[-n|-b|-N|-B] path", summary: "remove a quota, or one of its limits", min: 1, max: 1, run: delQuota,
			options: []option{
				{name: "n", help: "The soft limit of nodes"},
				{name: "b", help: "The soft limit of bytes"},
				{name: "N", help: "The hard limit of nodes"},
				{name: "B", help: "The hard limit of bytes"},
			},
		},
		{
			name: "diff", usage: "[--to host:port|@NAME] path [path]", summary: "compare two trees, or those of two ensembles", min: 1, max: 2, run: diff, long: true,
			example: "zkcli -server @test diff --to @prod /app",
			options: []option{{name: "to", arg: "host:port|@NAME", help: "The second tree is another ensemble's"}},
			more:    "Data and ACLs are compared. Exit code 1: they differ.",
		},
		{
			name: "du", usage: "[-d depth] path", summary: "add up bytes and nodes of trees", min: 1, max: 1, run: du, long: true,
			example: "zkcli du -d 1 /", options: []option{depth},
		},
		{
			name: "elect", usage: "[-w ms] [-id text] [-grace ms] path [-- command...]", summary: "run a command while leading; without one, list who takes part",
			min: 1, max: noLimit, run: elect, endless: true, signals: true, options: holder,
			example: "zkcli elect /election/backup -- ./backup.sh", more: heldHelp,
		},
		{
			name: "ensembles", summary: "list the ensembles of the configuration file", run: listEnsembles, example: "zkcli -server @prod ls /",
			more: "The file is $ZKCLI_CONFIG, or zkcli/ensembles in $XDG_CONFIG_HOME (default ~/.config). It may have:\n" + configExample + "\n" +
				"@NAME stands wherever servers do: -server, $ZKCLI_SERVER, connect, diff --to. Flags win over the file.",
		},
		{name: "exit", summary: "as quit", max: noLimit, run: quit},
		{
			name: "export", usage: "path", summary: "write a tree as JSON, with ACLs", min: 1, max: 1, run: export, long: true,
			example: "zkcli export /app > app.json",
		},
		{
			name: "find", usage: "[-name glob] [-data text] [-e] path", summary: "list nodes that meet conditions", min: 1, max: 1, run: find, long: true,
			example: "zkcli find -name 'lock-*' -e /",
			options: []option{
				{name: "name", arg: "glob", help: "Whose name matches, as 'lock-*'"},
				{name: "data", arg: "text", help: "Whose data holds this text"},
				{name: "e", help: "That are ephemeral"},
			},
		},
		{
			name: "get", usage: "[-s] [-w] [-b] [-x] path", summary: "print a node's data", min: 1, max: 2, run: get,
			options: []option{
				stat, watch,
				{name: "b", help: "Output data in base64 format"},
				{name: "x", help: "Output data in hexdump format"},
			},
		},
		{
			name: "getAcl", usage: "[-s] path", summary: "print a node's access control list", min: 1, max: 1, run: getACL,
			options: []option{stat},
		},
		{name: "getAllChildrenNumber", usage: "path", summary: "count all nodes below one", min: 1, max: 1, run: allChildrenNumber},
		{name: "getEphemerals", usage: "[path]", summary: "list the session's ephemeral nodes", max: 1, run: ephemerals},
		{name: "help", usage: "[command]", summary: "list the commands, or explain one", max: 1, run: help},
		{name: "history", summary: "list the last commands", run: history},
		{
			name: "import", usage: "[--file path] [-f] [-p] [--dry-run] path", summary: "make what export wrote", min: 1, max: 1, run: importNodes, long: true,
			example: "zkcli import --file app.json /app-copy", options: []option{file, force, parents, dry},
			more: "Without --file it reads standard input. Ephemeral nodes are left out. A tree whose ACLs shut you out takes -auth of who they let in.",
		},
		{name: "listquota", usage: "path", summary: "print a quota and what is used", min: 1, max: 1, run: listQuota},
		{
			name: "lock", usage: "[-n] [-s] [-w ms] [-id text] [-grace ms] path [-- command...]", summary: "run a command while holding a lock; without one, list who has it",
			min: 1, max: noLimit, run: lock, endless: true, signals: true,
			options: append([]option{
				{name: "n", help: "Do not wait for others; exit code 123 then"},
				{name: "s", help: "Shared with others that say -s"},
			}, holder...),
			example: "zkcli lock -n /locks/nightly -- ./nightly.sh", more: heldHelp,
		},
		{
			name: "ls", usage: "[-s] [-w] [-R] path", summary: "list a node's children", min: 1, max: 2, run: ls,
			options: []option{stat, watch, {name: "R", help: "All nodes below, one to a line"}},
		},
		{
			name: "multi", usage: "[--file path]", summary: "do several writes in one transaction: all, or none", run: multi,
			example: "printf 'check -v 3 /a\\nset /a new\\ndelete /b\\n' | zkcli multi", options: []option{file},
			more: "Each line is create, set or delete with its options, or check [-v version] path, which only has to be true.",
		},
		{
			name: "mv", usage: "from to", summary: "move a node or a tree, in one transaction", min: 2, max: 2, run: move, long: true,
			example: "zkcli mv /app/old /app/new", more: "All of it is moved, or nothing; up to 1000 nodes.",
		},
		{name: "printwatches", usage: "on|off", summary: "whether events are printed", max: 1, run: printWatches},
		{name: "quit", summary: "end the session and leave", max: noLimit, run: quit},
		{
			name: "reconfig", usage: reconfigUsage, summary: "change the ensemble's membership", run: reconfig,
			options: []option{
				{name: "s", help: "Print the configuration node's stats additionally"},
				{name: "v", arg: "version", help: "Only if this is the configuration's version, in hexadecimal"},
				{name: "file", arg: "path", help: "The whole new membership, from a configuration file"},
				{name: "members", arg: "list", help: "The whole new membership, separated by commas"},
				{name: "add", arg: "list", help: "Servers to add, separated by commas"},
				{name: "remove", arg: "list", help: "Numbers of servers to remove, separated by commas"},
			},
		},
		{name: "redo", usage: "cmdno", summary: "run a command of the history again", min: 1, max: 1, run: redo},
		{
			name: "removewatches", usage: "path [-c|-d|-p|-r|-a] [-l]", summary: "remove watches of this session", min: 1, max: 1, run: removeWatches,
			options: []option{
				{name: "c", help: "Those of ls -w"},
				{name: "d", help: "Those of get -w and stat -w"},
				{name: "p", help: "Those of addWatch -m PERSISTENT"},
				{name: "r", help: "Those of addWatch -m PERSISTENT_RECURSIVE"},
				{name: "a", help: "All, the default"},
				{name: "l", help: "Here alone, when there is no connection"},
			},
		},
		{
			name: "rm", usage: "[-r] [-b batch size] [--dry-run] path", summary: "delete a node or a tree, showing how far it is", min: 1, max: 1, run: remove, long: true,
			example: "zkcli rm -r --dry-run /app", options: []option{{name: "r", help: "With all below"}, batch, dry},
			more: "Ctrl-C stops it, and it says how many are deleted by then.",
		},
		{
			name: "set", usage: "path data [-s] [-v version] [-b]", summary: "replace a node's data", min: 1, max: 2, run: set,
			options: []option{stat, version, {name: "b", help: "Supply data in base64 format"}, file},
		},
		{
			name: "setAcl", usage: "[-s] [-v version] [-R] path acl", summary: "replace a node's access control list", min: 2, max: 2, run: setACL,
			options: []option{stat, version, {name: "R", help: "On all nodes below too"}},
		},
		{
			name: "setquota", usage: "-n|-b|-N|-B val path", summary: "limit a tree", min: 1, max: 1, run: setQuota,
			options: []option{
				{name: "n", arg: "count", help: "Nodes, itself included; soft: going beyond is logged"},
				{name: "b", arg: "bytes", help: "Bytes of data, soft"},
				{name: "N", arg: "count", help: "Nodes, hard: going beyond is refused where the server enforces quotas"},
				{name: "B", arg: "bytes", help: "Bytes of data, hard"},
			},
		},
		{
			name: "stat", usage: "[-w] path", summary: "print a node's stat", min: 1, max: 2, run: statNode,
			options: []option{watch},
		},
		{
			name: "status", summary: "ask all servers how they are", run: status, example: "zkcli -server a:2181,b:2181 status",
		},
		{name: "sync", usage: "path", summary: "wait until the server has caught up", min: 1, max: 1, run: syncPath},
		{
			name: "tree", usage: "[-d depth] [-s] path", summary: "draw a tree", min: 1, max: 1, run: tree, long: true,
			example: "zkcli tree -d 2 /", options: []option{depth, {name: "s", help: "The bytes of data too"}},
		},
		{name: "version", summary: "print the version", run: printVersion},
		{
			name: "watch", usage: "[-r] [-c count] path", summary: "print what happens, until Ctrl-C", min: 1, max: 1, run: watchLive, long: true, endless: true,
			example: "zkcli watch -r /app",
			options: []option{{name: "r", help: "In the whole tree"}, {name: "c", arg: "count", help: "Until so many events have come"}},
			more:    "Ctrl-C is how it ends, with exit code 0; with -c it has come too early, and the code is 130.",
		},
		{name: "whoami", summary: "list the connection's identities", run: whoAmI},
	}
}

// heldHelp is what there is to say of elect and lock.
const heldHelp = `The command has its fencing token in $ZKCLI_TOKEN, a number larger than that of every holder before, and its node in $ZKCLI_NODE.
It is ended when what it runs under is lost: two thirds of the session's timeout (-timeout, or what the server makes of it) after the
last answer of a server at the latest, before anybody else can have it. SIGTERM goes to the command and all that it has started, after
the grace SIGKILL; the exit code is 124.
Else the exit code is the command's own, 128 and the signal's number if a signal has ended it. Signals are passed on.`

func commandNamed(name string) *command {
	for _, c := range commands() {
		if c.name == name {
			return c
		}
	}
	return nil
}

func help(_ context.Context, s *session, in *invocation) error {
	if len(in.args) == 1 {
		c := commandNamed(in.args[0])
		if c == nil {
			return unknownCommand{in.args[0]}
		}
		s.p.line("%s\n%s", c.usageText(), c.summary)
		if c.more != "" {
			s.p.line("%s", c.more)
		}
		if c.example != "" {
			s.p.line("example: %s", c.example)
		}
		return nil
	}
	s.p.line("%s\n%s", strings.TrimRight(optionsHelp, "\n"), s.p.paint(bold, "\ncommands of zkCli:"))
	for _, c := range commands() {
		if c.example == "" {
			s.p.line("%s", c.helpLine())
		}
	}
	s.p.line("%s", s.p.paint(bold, "\nfurther commands, each with an example:"))
	for _, c := range commands() {
		if c.example != "" {
			s.p.line("%s\n        %s", c.helpLine(), s.p.paint(blue, c.example))
		}
	}
	s.p.line("\n\"zkcli help COMMAND\" explains a command and its options. In the shell '...' and \"...\" hold words with blanks,\n" +
		"$'...' also \\n \\t \\0 \\xHH \\uHHHH, and -- ends the options.")
	return nil
}

// summaryColumn is where the summaries stand in the list of commands.
const summaryColumn = 48

func (c *command) helpLine() string {
	use := "  " + strings.TrimRight(c.name+" "+c.usage, " ")
	if len(use)+2 > summaryColumn {
		return use + "\n" + strings.Repeat(" ", summaryColumn) + c.summary
	}
	return use + strings.Repeat(" ", summaryColumn-len(use)) + c.summary
}
