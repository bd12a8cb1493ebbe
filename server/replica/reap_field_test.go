package replica

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/zkserver/zkserver/znode"
)

func remove(path string) *znode.Request { return &znode.Request{Op: znode.OpDelete, Path: path} }

// there reports whether the leader's tree has a node.
func (s *simulation) there(path string) bool {
	_, code := s.nodes[s.leader()-1].tree.Exists(path, nil)
	return code == znode.OK
}

// TestFieldD5Containers: a container whose last child went is removed by the next look, one that never had a child after
// the time that is set for it.
func TestFieldD5Containers(t *testing.T) {
	s := newSimulation(t, 3, 0)
	s.run(50)
	c := s.open(s.leader()%3+1, 20_000, nil)
	s.run(10)
	for _, p := range []string{"/used", "/full", "/never"} {
		s.submit(c, &znode.Request{Op: znode.OpCreateContainer, Path: p, ACL: openACL, Flags: 4})
	}
	s.submit(c, &znode.Request{Op: znode.OpCreate, Path: "/used/x", ACL: openACL})
	s.submit(c, &znode.Request{Op: znode.OpCreate, Path: "/full/x", ACL: openACL})
	s.submit(c, remove("/used/x"))
	s.run(5)
	s.run(quanta(500*time.Millisecond + 500*time.Millisecond)) // an interval, and the slots of its rate
	if s.there("/used") || !s.there("/full") || !s.there("/never") {
		t.Errorf("after a look: %s", paths(s.nodes[s.leader()-1].tree))
	}
	s.run(quanta(5*time.Second + 500*time.Millisecond + 500*time.Millisecond))
	if !s.there("/full") || s.there("/never") {
		t.Errorf("after the time of what was never used: %s", paths(s.nodes[s.leader()-1].tree))
	}
	s.check()
}

// TestFieldD6ReaperAgainstCreate: a child is created while the reaper removes its container. Either the child is there
// and so is the container, or there was no node to create it below.
func TestFieldD6ReaperAgainstCreate(t *testing.T) {
	rnd := rand.New(rand.NewPCG(6, 6))
	s := newSimulation(t, 3, 0)
	s.run(50)
	c := s.open(s.leader()%3+1, 20_000, nil)
	s.run(10)
	stayed, reaped := 0, 0
	for i := range seeds(1000) {
		k := fmt.Sprintf("/k%d", i)
		s.submit(c, &znode.Request{Op: znode.OpCreateContainer, Path: k, ACL: openACL, Flags: 4})
		s.submit(c, &znode.Request{Op: znode.OpCreate, Path: k + "/x", ACL: openACL})
		s.submit(c, remove(k+"/x"))
		s.run(1)
		for limit := 0; s.there(k) && rnd.IntN(40) > 0 && limit < 200; limit++ {
			s.run(1)
		}
		s.out.Reset()
		s.turns(rnd, rnd.IntN(6))
		s.submit(c, &znode.Request{Op: znode.OpCreate, Path: k + "/child", ACL: openACL})
		if rnd.IntN(2) == 0 { // the next look falls among the messages of the create
			s.now += 10 * time.Millisecond
			for _, x := range s.nodes {
				x.in = append(x.in, Quantum{Now: s.now - x.born})
			}
		}
		s.run(3)
		ok := strings.Contains(s.out.String(), k+"/child: "+k+"/child ")
		none := strings.Contains(s.out.String(), fmt.Sprintf("%s/child: error %d ", k, znode.NoNode))
		switch parent, child := s.there(k), s.there(k+"/child"); {
		case ok && parent && child:
			stayed++
			s.submit(c, remove(k+"/child"))
			s.submit(c, remove(k))
			s.run(1)
		case none && !parent && !child:
			reaped++
		default:
			t.Fatalf("round %d: parent %t, child %t:\n%s", i, parent, child, s.out.String())
		}
		s.check()
	}
	t.Logf("the child was first %d times, the reaper %d times", stayed, reaped)
	if stayed == 0 || reaped == 0 {
		t.Error("one of the cases never came up")
	}
}
