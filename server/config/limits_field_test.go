package config

import (
	"strings"
	"testing"
)

// TestFieldF3ImpossibleValues (docs/field-reports.md): an impossible value is an error that names file, line and key;
// what is merely unusual is not.
func TestFieldF3ImpossibleValues(t *testing.T) {
	const ok = "dataDir=D/\nclientPort=2181\ninitLimit=5\nsyncLimit=2\n"
	for _, c := range []struct{ text, want string }{
		{ok + "tickTime=0\nserver.1=a:1:2\n", "zoo.cfg:5: tickTime=0: "},
		{ok + "tickTime=soon\nserver.1=a:1:2\n", "zoo.cfg:5: tickTime=soon: "},
		{strings.Replace(ok, "initLimit=5", "initLimit=-5", 1) + "server.1=a:1:2\nserver.2=b:1:2\n", "zoo.cfg:3: initLimit=-5: "},
		{ok + "server.1=a:1:2\nserver.2=b:1:2\nserver.2=c:1:2\n", "zoo.cfg:7: server.2: server 2 is given twice"},
		{ok + "server.0=a:1:2\nserver.1=b:1:2\n", `zoo.cfg:5: server.0: serverid "0" is not a number from 1 to 254`},
		{ok + "server.1=a:70000:2\n", `zoo.cfg:5: server.1: quorum port "70000" is not a number from 1 to 65535`},
		{ok + "server.1=a:1:70000\n", `zoo.cfg:5: server.1: election port "70000" is not a number from 1 to 65535`},
		{strings.Replace(ok, "2181", "70000", 1), "zoo.cfg:2: clientPort=70000: "},
	} {
		if _, err := Load(write(t, c.text, "1"), Flags{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.text, err)
		}
	}
	// An even number of voters is a quorum like any other; an unknown key is named, with the line.
	c, err := Load(write(t, ok+"server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\nserver.4=d:1:2\nticktime=5\n", "1"), Flags{})
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, n := range c.Notices {
		found = found || n.Warning && n.Line == 9 && n.Key == "ticktime" && strings.Contains(n.Text, "tickTime")
	}
	if !found || len(c.Servers) != 4 {
		t.Errorf("%+v", c.Notices)
	}
}

// TestFieldA10BlankBehindAPath: a path means the same with and without a blank behind it.
func TestFieldA10BlankBehindAPath(t *testing.T) {
	c, err := Load(write(t, "dataDir=/x/y \t\ndataLogDir=/x/z  \nclientPort=1\n", ""), Flags{})
	if err != nil || c.DataDir != "/x/y" || c.DataLogDir != "/x/z" {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestFieldF2OneFaultOneLine: a server that does not know which line is its own complains of that alone.
func TestFieldF2OneFaultOneLine(t *testing.T) {
	const text = "dataDir=D/\ninitLimit=5\nsyncLimit=2\nserver.1=a:1:2;2181\nserver.2=b:1:2;2181\n"
	for _, myid := range []string{"", "x", "3"} {
		if _, err := Load(write(t, text, myid), Flags{}); err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "myid") {
			t.Errorf("myid %q: %v", myid, err)
		}
	}
	if _, err := Load(write(t, strings.ReplaceAll(text, ";2181", ""), "1"), Flags{}); err == nil || !strings.Contains(err.Error(), "clientPort is not set") {
		t.Errorf("no client port at all: %v", err)
	}
}
