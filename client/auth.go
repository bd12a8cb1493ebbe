package client

import (
	"bytes"
	"errors"
	"slices"
)

// errReauth says that credentials which every connection begins with were refused.
var errReauth = errors.New("the server refuses credentials sent on every connection")

// settleAuth notes an identity that the server took, so that every later connection has it too. With Client.mu held.
func (c *Client) settleAuth(cl *call, code Code) error {
	if code == OK {
		c.keepAuth(Auth{Scheme: cl.req.scheme, Data: cl.req.data})
		return nil
	}
	if cl.done == nil {
		return errReauth
	}
	return nil // the caller is told, and the server closes the connection
}

// keepAuth keeps credentials once. They are the client's own copy.
func (c *Client) keepAuth(a Auth) {
	if !slices.ContainsFunc(c.auth, func(b Auth) bool { return a.Scheme == b.Scheme && bytes.Equal(a.Data, b.Data) }) {
		c.auth = append(c.auth, a)
	}
}
