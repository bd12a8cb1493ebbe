package livetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	zkv1 "github.com/zkserver/zkserver/proto/zk/v1"
)

// session makes a node that ends with its session, watches it, changes it, and closes the session.
func session(ctx context.Context, addr string, out io.Writer) error {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	stream, err := zkv1.NewZooKeeperServiceClient(conn).Session(ctx)
	if err != nil {
		return err
	}
	open := &zkv1.ACLList{Entries: []*zkv1.ACL{{Perms: 31, Scheme: "world", Id: "anyone"}}}
	err = stream.Send(&zkv1.SessionRequest{Commands: []*zkv1.Command{
		{Cxid: 1, Op: &zkv1.Command_Connect{Connect: &zkv1.ConnectRequest{TimeoutMs: 10_000}}},
		{Cxid: 2, Op: &zkv1.Command_Create{Create: &zkv1.CreateRequest{Path: "/go", Mode: zkv1.CreateMode_CREATE_MODE_EPHEMERAL, Acl: open}}},
		{Cxid: 3, Op: &zkv1.Command_Get{Get: &zkv1.GetRequest{Path: "/go", Watch: true}}},
		{Cxid: 4, Op: &zkv1.Command_Set{Set: &zkv1.SetRequest{Path: "/go", Data: []byte("hello"), Version: 0}}},
		{Cxid: 5, Op: &zkv1.Command_Close{Close: &zkv1.CloseRequest{}}},
	}})
	for err == nil {
		var m *zkv1.SessionResponse
		m, err = stream.Recv()
		for _, a := range m.GetAnswers() {
			switch {
			case a.GetEvent() != nil:
				fmt.Fprintln(out, a.GetEvent().GetType(), a.GetEvent().GetPath())
			case a.GetReply() != nil:
				fmt.Fprintln(out, a.GetReply().GetCxid(), a.GetReply().GetCode())
			}
		}
	}
	if errors.Is(err, io.EOF) {
		return nil // the end of a stream whose session was closed
	}
	return err
}

// TestGRPCExample: the program that docs/grpc.md shows does what is said there, and the page shows the programs as they
// are.
func TestGRPCExample(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var out strings.Builder
	if err := session(ctx, startEnsemble(t, 1).addrs[0], &out); err != nil {
		t.Fatal(err)
	}
	const want = "2 CODE_OK\n3 CODE_OK\nEVENT_TYPE_NODE_DATA_CHANGED /go\n4 CODE_OK\n5 CODE_OK\n"
	if out.String() != want {
		t.Errorf("it prints %q, want %q", out.String(), want)
	}
	page, err := os.ReadFile("../../docs/grpc.md")
	if err != nil {
		t.Fatal(err)
	}
	for file, from := range map[string]string{"grpcexample_test.go": "func session(", "../../testdata/interop/grpc_example.py": "import "} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, program, _ := strings.Cut(string(text), "\n"+from)
		if end := strings.Index(program, "\n}\n"); end >= 0 {
			program = program[:end+2]
		}
		if !strings.Contains(string(page), from+strings.TrimRight(program, "\n")+"\n```") {
			t.Errorf("docs/grpc.md does not show %s as it is", file)
		}
	}
}
