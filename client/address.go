package client

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// defaultPort is the client port of a server that is named without one.
const defaultPort = "2181"

// ParseConnect takes a connection string apart: "host1:2181,host2,[::1]:2182/app" gives the servers, each as
// host:port, and the chroot "/app" (empty for none, also for "/"). The error names the first part that is
// none.
func ParseConnect(s string) (servers []string, chroot string, err error) {
	hosts := s
	if i := strings.IndexByte(s, '/'); i >= 0 {
		hosts, chroot = s[:i], s[i:]
		if chroot == "/" {
			chroot = ""
		} else if err := checkPath(chroot); err != nil {
			return nil, "", fmt.Errorf("client: chroot of %q: %w", s, err)
		}
	}
	for h := range strings.SplitSeq(hosts, ",") {
		h = strings.TrimSpace(h)
		if h == "" {
			continue
		}
		addr, err := parseServer(h)
		if err != nil {
			return nil, "", err
		}
		servers = append(servers, addr)
	}
	if len(servers) == 0 {
		return nil, "", fmt.Errorf("client: no server in %q", s)
	}
	return servers, chroot, nil
}

// parseServer makes host:port of one server's name, with or without a port, IPv6 addresses in brackets or bare.
func parseServer(h string) (string, error) {
	bare := strings.TrimSuffix(strings.TrimPrefix(h, "["), "]")
	if net.ParseIP(bare) != nil || !strings.Contains(h, ":") {
		return net.JoinHostPort(bare, defaultPort), nil
	}
	host, port, err := net.SplitHostPort(h)
	if err != nil {
		return "", fmt.Errorf("client: server %q: %w", h, err)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 || host == "" {
		return "", fmt.Errorf("client: server %q: want host:port", h)
	}
	return net.JoinHostPort(host, port), nil
}

// checkPath reports what ZooKeeper's rules say against an absolute path.
func checkPath(p string) error {
	switch {
	case p == "" || p[0] != '/':
		return fmt.Errorf("path %q does not begin with /", p)
	case p == "/":
		return nil
	case p[len(p)-1] == '/':
		return fmt.Errorf("path %q ends with /", p)
	}
	for part := range strings.SplitSeq(p[1:], "/") {
		if part == "" || part == "." || part == ".." {
			return fmt.Errorf("path %q has the component %q", p, part)
		}
	}
	if strings.ContainsRune(p, 0) {
		return fmt.Errorf("path %q contains NUL", p)
	}
	return nil
}

// serverPath is the server's path of a caller's: below the chroot.
func (c *Client) serverPath(p string) string {
	if c.chroot == "" {
		return p
	}
	if p == "/" {
		return c.chroot
	}
	return c.chroot + p
}

// callerPath takes the chroot off a path of the server's, once. A path outside the chroot stays as it is.
func (c *Client) callerPath(p string) string {
	if c.chroot == "" {
		return p
	}
	rest, ok := strings.CutPrefix(p, c.chroot)
	switch {
	case !ok || rest != "" && rest[0] != '/':
		return p
	case rest == "":
		return "/"
	}
	return rest
}
