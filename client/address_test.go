package client

import (
	"slices"
	"testing"
)

func TestParseConnect(t *testing.T) {
	for _, c := range []struct {
		in      string
		servers []string
		chroot  string
	}{
		{"a", []string{"a:2181"}, ""},
		{"a:1,b:2 , c", []string{"a:1", "b:2", "c:2181"}, ""},
		{"a:1,b:2/app/x", []string{"a:1", "b:2"}, "/app/x"},
		{"a/", []string{"a:2181"}, ""},
		{"[::1]:5,::1,10.0.0.1:7", []string{"[::1]:5", "[::1]:2181", "10.0.0.1:7"}, ""},
	} {
		servers, chroot, err := ParseConnect(c.in)
		if err != nil || !slices.Equal(servers, c.servers) || chroot != c.chroot {
			t.Errorf("%q gave %v %q %v", c.in, servers, chroot, err)
		}
	}
}

func TestChrootIsAddedAndTakenOffOnce(t *testing.T) {
	c := &Client{chroot: "/app"}
	for _, p := range []string{"/", "/a", "/app", "/app/app"} {
		if got := c.callerPath(c.serverPath(p)); got != p {
			t.Errorf("%q came back as %q", p, got)
		}
	}
	if c.serverPath("/") != "/app" || c.callerPath("/apple") != "/apple" {
		t.Error("chroot is not a path")
	}
}

func FuzzParseConnect(f *testing.F) {
	f.Add("a:1,b:2/app")
	f.Fuzz(func(t *testing.T, s string) {
		servers, chroot, err := ParseConnect(s)
		if err == nil && (len(servers) == 0 || chroot == "/") {
			t.Fatalf("%q gave %v %q", s, servers, chroot)
		}
	})
}
