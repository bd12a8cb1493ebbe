package config

import (
	"fmt"
	"strings"
	"testing"
)

// TestConfigurationOfASuite: the zoo.cfg with which kazoo's own suite starts a server asks for half a dozen features that
// are not there yet. The server starts all the same and says of each in one line what it comes to.
func TestConfigurationOfASuite(t *testing.T) {
	const text = `
tickTime=2000
dataDir=D/
clientPort=20030
secureClientPort=20034
maxClientCnxns=0
admin.serverPort=20035
serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider
ssl.keyStore.location=/tmp/keystore.jks
ssl.keyStore.password=apassword
ssl.trustStore.location=/tmp/truststore.jks
ssl.trustStore.password=apassword
4lw.commands.whitelist=*
reconfigEnabled=true
localSessionsEnabled=true
localSessionsUpgradingEnabled=true

initLimit=4
syncLimit=2
server.4=localhost:20031:20032:observer
server.1=localhost:20001:20002:participant
server.2=localhost:20011:20012:participant
server.3=localhost:20021:20022:participant
peerType=observer

readonlymode.enabled=true
admin.enableServer=false
`
	c, err := Load(write(t, text, "4"), Flags{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, n := range c.Notices {
		if n.Warning || n.Text == "" || n.Line == 0 {
			t.Errorf("%+v", n)
		}
		said = append(said, n.Key)
	}
	want := "secureClientPort admin.serverPort serverCnxnFactory authProvider.1 ssl.keyStore.location ssl.keyStore.password" +
		" ssl.trustStore.location ssl.trustStore.password reconfigEnabled localSessionsEnabled localSessionsUpgradingEnabled" +
		" readonlymode.enabled admin.enableServer"
	if got := strings.Join(said, " "); got != want {
		t.Errorf("said of %s\nwant     %s", got, want)
	}
	if !c.Self().Observer || c.ServerID != 4 || fmt.Sprint(c.Self().Quorum) != "[localhost:20031]" || c.Self().Client != "0.0.0.0:20030" {
		t.Errorf("%+v", c.Self())
	}
}
