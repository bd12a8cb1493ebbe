// Package server assembles one zkserver out of its rooms: store and replica, links to the other servers, sessions, and
// what listens to clients. It is also the embeddable API: New, then Run, or Start and Close. It may import everything
// below it; only cmd and client/zktest import it. Begin reading at server.go.
package server
