package client

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/zkserver/zkserver/proto/jute"
)

// Create makes a node and returns its path: of a sequential one with its digits. Without an acl it is OpenACL. Nil
// data is null, which ZooKeeper keeps apart from empty.
//
// Errors: ErrNoNode (no parent), ErrNodeExists, ErrNoAuth, ErrNoChildrenForEphemerals, ErrInvalidACL, ErrBadArguments,
// ErrQuotaExceeded. After a connection loss (MaybeApplied) the node may exist; a sequential one is then found only by
// a name of one's own in it.
func (c *Client) Create(ctx context.Context, path string, data []byte, mode CreateMode, acl ...ACL) (string, error) {
	if mode == Container {
		name, _, err := c.Create2(ctx, path, data, mode, acl...)
		return name, err
	}
	rep, err := c.create(ctx, jute.OpCreate, path, data, mode, -1, acl)
	return c.callerPath(rep.path), err
}

// Create2 is Create, and returns the new node's Stat too. Its Czxid is a fencing number.
func (c *Client) Create2(ctx context.Context, path string, data []byte, mode CreateMode, acl ...ACL) (string, Stat, error) {
	op := jute.OpCreate2
	if mode == Container {
		op = jute.OpCreateContainer
	}
	rep, err := c.create(ctx, op, path, data, mode, -1, acl)
	return c.callerPath(rep.path), rep.stat, err
}

// CreateTTL makes a node that the server removes once it has no children and was not changed for ttl, in whole
// milliseconds from 1 to 2^40-1. The mode is PersistentWithTTL or PersistentSequentialWithTTL. Errors as of Create,
// and ErrUnimplemented from a server that has no such nodes.
func (c *Client) CreateTTL(ctx context.Context, path string, data []byte, mode CreateMode, ttl time.Duration, acl ...ACL) (string, Stat, error) {
	if !mode.hasTTL() {
		return "", Stat{}, badArgument("create", path, fmt.Errorf("a %v node has no ttl", mode))
	}
	rep, err := c.create(ctx, jute.OpCreateTTL, path, data, mode, ttl.Milliseconds(), acl)
	return c.callerPath(rep.path), rep.stat, err
}

func (c *Client) create(ctx context.Context, op jute.OpCode, path string, data []byte, mode CreateMode, ttl int64, acl []ACL) (reply, error) {
	if mode.hasTTL() && op != jute.OpCreateTTL {
		return reply{}, badArgument("create", path, fmt.Errorf("a %v node is made by CreateTTL", mode))
	}
	if acl == nil {
		acl = OpenACL()
	}
	return c.do(ctx, "create", path, &request{op: op, path: path, data: data, acl: acl, mode: mode, ttl: ttl})
}

// Delete removes a node without children whose data version is the one given, or AnyVersion.
// Errors: ErrNoNode, ErrBadVersion, ErrNotEmpty, ErrNoAuth, ErrBadArguments.
func (c *Client) Delete(ctx context.Context, path string, version int32) error {
	_, err := c.do(ctx, "delete", path, &request{op: jute.OpDelete, path: path, version: version})
	return err
}

// Exists tells whether there is a node, and its Stat. A missing node is no error. Errors: ErrNoAuth.
func (c *Client) Exists(ctx context.Context, path string) (st Stat, ok bool, err error) {
	return exists(c.do(ctx, "exists", path, &request{op: jute.OpExists, path: path}))
}

// ExistsW is Exists and watches the path for the node's creation, change or removal, whether it exists or not.
func (c *Client) ExistsW(ctx context.Context, path string) (st Stat, ok bool, w *Watch, err error) {
	rep, w, err := c.doWatch(ctx, "exists", path, jute.OpExists)
	st, ok, err = exists(rep, err)
	return st, ok, w, err
}

func exists(rep reply, err error) (Stat, bool, error) {
	if CodeOf(err) == ErrNoNode {
		return Stat{}, false, nil
	}
	return rep.stat, err == nil, err
}

// Get reads a node's data, nil for null, and its Stat. Errors: ErrNoNode, ErrNoAuth.
func (c *Client) Get(ctx context.Context, path string) ([]byte, Stat, error) {
	rep, err := c.do(ctx, "get", path, &request{op: jute.OpGetData, path: path})
	return rep.data, rep.stat, err
}

// GetW is Get and watches the node for its change or removal. When it fails there is no watch.
func (c *Client) GetW(ctx context.Context, path string) ([]byte, Stat, *Watch, error) {
	rep, w, err := c.doWatch(ctx, "get", path, jute.OpGetData)
	return rep.data, rep.stat, w, err
}

// Set replaces a node's data, if its version is the one given, or AnyVersion, and returns its new Stat.
// Errors: ErrNoNode, ErrBadVersion, ErrNoAuth, ErrQuotaExceeded, ErrBadArguments.
func (c *Client) Set(ctx context.Context, path string, data []byte, version int32) (Stat, error) {
	rep, err := c.do(ctx, "set", path, &request{op: jute.OpSetData, path: path, data: data, version: version})
	return rep.stat, err
}

// GetACL reads a node's access control list. Without PermAdmin digest hashes are masked. Errors: ErrNoNode, ErrNoAuth.
func (c *Client) GetACL(ctx context.Context, path string) ([]ACL, Stat, error) {
	rep, err := c.do(ctx, "getAcl", path, &request{op: jute.OpGetACL, path: path})
	return rep.acl, rep.stat, err
}

// SetACL replaces a node's access control list, if its ACL version (Stat.Aversion) is the one given, or AnyVersion.
// Errors: ErrNoNode, ErrBadVersion, ErrNoAuth, ErrInvalidACL, ErrBadArguments.
func (c *Client) SetACL(ctx context.Context, path string, acl []ACL, aversion int32) (Stat, error) {
	rep, err := c.do(ctx, "setAcl", path, &request{op: jute.OpSetACL, path: path, acl: acl, version: aversion})
	return rep.stat, err
}

// Children lists the names of a node's children, in no particular order, and the node's Stat.
// Errors: ErrNoNode, ErrNoAuth, ErrReplyTooLarge.
func (c *Client) Children(ctx context.Context, path string) ([]string, Stat, error) {
	rep, err := c.do(ctx, "children", path, &request{op: jute.OpGetChildren2, path: path})
	return rep.names, rep.stat, err
}

// ChildrenW is Children and watches the node's list of children, and its removal. When it fails there is no watch.
func (c *Client) ChildrenW(ctx context.Context, path string) ([]string, Stat, *Watch, error) {
	rep, w, err := c.doWatch(ctx, "children", path, jute.OpGetChildren2)
	return rep.names, rep.stat, w, err
}

// AllChildrenNumber counts all descendants of a node, itself excluded. Errors: ErrNoNode, ErrNoAuth.
func (c *Client) AllChildrenNumber(ctx context.Context, path string) (int, error) {
	rep, err := c.do(ctx, "allChildrenNumber", path, &request{op: jute.OpGetAllChildrenNumber, path: path})
	return int(rep.count), err
}

// Ephemerals lists the paths of this session's ephemeral nodes that begin with prefix as plain text ("/x/e" finds
// "/x/e1"); "/" finds all below the chroot. In no particular order. Errors: those of the connection.
func (c *Client) Ephemerals(ctx context.Context, prefix string) ([]string, error) {
	req := &request{op: jute.OpGetEphemerals, path: prefix}
	rep, err := c.do(ctx, "ephemerals", prefix, req)
	names := rep.names[:0]
	for _, n := range rep.names {
		if p := c.callerPath(n); c.chroot == "" || p != n {
			names = append(names, p)
		}
	}
	return names, err
}

// Sync waits until the server has everything that was committed when the call was made: a read after it sees it. The
// path need not exist. Errors: those of the connection.
func (c *Client) Sync(ctx context.Context, path string) error {
	_, err := c.do(ctx, "sync", path, &request{op: jute.OpSync, path: path})
	return err
}

// WhoAmI lists the identities of the current connection, in no particular order. Errors: those of the
// connection.
func (c *Client) WhoAmI(ctx context.Context) ([]Identity, error) {
	rep, err := c.do(ctx, "whoAmI", "", &request{op: jute.OpWhoAmI})
	return rep.ids, err
}

// AddAuth adds an identity to the connection, and to every later one. When the server refuses it (ErrAuthFailed) it
// also drops the connection: the client reconnects without it.
func (c *Client) AddAuth(ctx context.Context, scheme string, data []byte) error {
	_, err := c.do(ctx, "addAuth", "", &request{op: jute.OpAuth, scheme: scheme, data: bytes.Clone(data)})
	return err
}

// Multi executes writes and checks atomically: all of them in order, or none.
//
// When it is refused, the error has the code and the path of the operation that failed, and the results say which one
// that was (OpResult.Code). When it fails otherwise there are no results.
func (c *Client) Multi(ctx context.Context, ops ...Op) ([]OpResult, error) {
	inner := make([]Op, len(ops))
	for i, op := range ops {
		in, err := c.innerOp(op)
		if err != nil {
			return nil, badArgument("multi", op.path(), err)
		}
		inner[i] = in
	}
	rep, err := c.do(ctx, "multi", "", &request{op: jute.OpMulti, ops: inner})
	if err != nil {
		return nil, err
	}
	if len(rep.results) != len(ops) {
		return nil, &Error{Op: "multi", Code: ErrProtocol, Cause: fmt.Errorf("%d results of %d operations", len(rep.results), len(ops))}
	}
	for i := range rep.results {
		rep.results[i].Path = c.callerPath(rep.results[i].Path)
	}
	for i, r := range rep.results {
		if r.Code != OK && r.Code != ErrRuntimeInconsistency {
			return rep.results, &Error{Op: "multi", Path: ops[i].path(), Code: r.Code}
		}
	}
	for _, r := range rep.results {
		if r.Code != OK {
			return rep.results, &Error{Op: "multi", Code: r.Code}
		}
	}
	return rep.results, nil
}

// innerOp checks an operation of a multi and moves it below the chroot.
func (c *Client) innerOp(op Op) (Op, error) {
	if op == nil {
		return nil, fmt.Errorf("nil operation")
	}
	if err := wantSlash(op.path()); err != nil {
		return nil, err
	}
	switch o := op.(type) {
	case CreateOp:
		o.Path = c.serverPath(o.Path)
		if o.ACL == nil {
			o.ACL = OpenACL()
		}
		if !o.Mode.hasTTL() && o.TTL != 0 {
			return nil, fmt.Errorf("a %v node has no ttl", o.Mode)
		}
		return o, nil
	case DeleteOp:
		o.Path = c.serverPath(o.Path)
		return o, nil
	case SetOp:
		o.Path = c.serverPath(o.Path)
		return o, nil
	case CheckOp:
		o.Path = c.serverPath(o.Path)
		return o, nil
	}
	return nil, fmt.Errorf("operation of type %T", op)
}

// MultiRead executes reads at one moment. Each succeeds or fails for itself (ReadResult.Code).
func (c *Client) MultiRead(ctx context.Context, ops ...ReadOp) ([]ReadResult, error) {
	inner := make([]ReadOp, len(ops))
	for i, op := range ops {
		if op == nil {
			return nil, badArgument("multiRead", "", fmt.Errorf("nil operation"))
		}
		if err := wantSlash(op.readPath()); err != nil {
			return nil, badArgument("multiRead", op.readPath(), err)
		}
		switch o := op.(type) {
		case GetOp:
			inner[i] = GetOp{c.serverPath(o.Path)}
		case ChildrenOp:
			inner[i] = ChildrenOp{c.serverPath(o.Path)}
		default:
			return nil, badArgument("multiRead", op.readPath(), fmt.Errorf("operation of type %T", op))
		}
	}
	rep, err := c.do(ctx, "multiRead", "", &request{op: jute.OpMultiRead, reads: inner})
	if err != nil {
		return nil, err
	}
	if len(rep.reads) != len(ops) {
		return nil, &Error{Op: "multiRead", Code: ErrProtocol, Cause: fmt.Errorf("%d results of %d reads", len(rep.reads), len(ops))}
	}
	return rep.reads, nil
}

// wantSlash refuses what would end up beside the chroot. The finer rules are the server's.
func wantSlash(path string) error {
	if path == "" || path[0] != '/' {
		return fmt.Errorf("path does not begin with /")
	}
	return nil
}

func badArgument(op, path string, why error) error {
	return &Error{Op: op, Path: path, Code: ErrBadArguments, Cause: why}
}

// do executes a request whose path is still the caller's.
func (c *Client) do(ctx context.Context, name, path string, req *request) (reply, error) {
	return c.roundTrip(ctx, name, path, &call{req: *req})
}

// doWatch executes a read that sets a watch.
func (c *Client) doWatch(ctx context.Context, name, path string, op jute.OpCode) (reply, *Watch, error) {
	return c.doWatchOf(ctx, name, path, request{op: op, path: path})
}

func (c *Client) doWatchOf(ctx context.Context, name, path string, req request) (reply, *Watch, error) {
	op := req.op
	req.watch = true
	w := newWatch(c, op)
	rep, err := c.roundTrip(ctx, name, path, &call{req: req, watch: w})
	if err != nil && !(op == jute.OpExists && CodeOf(err) == ErrNoNode) {
		return rep, nil, err
	}
	return rep, w, err
}

// configPath is the node that holds the ensemble's configuration. No chroot applies to it.
const configPath = "/zookeeper/config"

// Config reads the ensemble's configuration: a line for each server ("server.1=host:2888:3888:participant;host:2181")
// and the configuration's version. A single server may have none. The chroot does not apply. Errors: ErrNoAuth.
func (c *Client) Config(ctx context.Context) ([]byte, Stat, error) {
	rep, err := c.do(ctx, "config", configPath, &request{op: jute.OpGetData, path: configPath, whole: true})
	return rep.data, rep.stat, err
}

// ConfigW is Config and watches the configuration for its change. When it fails there is no watch.
func (c *Client) ConfigW(ctx context.Context) ([]byte, Stat, *Watch, error) {
	rep, w, err := c.doWatchOf(ctx, "config", configPath, request{op: jute.OpGetData, path: configPath, whole: true})
	return rep.data, rep.stat, w, err
}

// Reconfig changes the ensemble's membership and returns the new one, as /zookeeper/config has it. Nil leaves a part
// out: joining and leaving are lists separated by commas, members is the whole new membership instead. fromConfig is
// the version of the configuration to start from, or -1. Errors: ErrReconfigDisabled, ErrNoAuth, ErrBadVersion,
// ErrNewConfigNoQuorum, ErrReconfigInProgress, ErrBadArguments.
func (c *Client) Reconfig(ctx context.Context, joining, leaving, members *string, fromConfig int64) ([]byte, Stat, error) {
	req := &request{op: jute.OpReconfig, texts: [3]*string{joining, leaving, members}, config: fromConfig}
	rep, err := c.do(ctx, "reconfig", "", req)
	return rep.data, rep.stat, err
}
