package recipe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/zkserver/zkserver/client"
)

// Instance is one program that offers a service. It is written as JSON in the form of Curator's service discovery, in
// whose tree (the base path, the service's name, the instance's id) it is found: either sees the other's.
type Instance struct {
	Service  string            // the service's name
	ID       string            // unique among the service's instances
	Address  string            // a host's name or address
	Port     int               // 0: none
	TLSPort  int               // 0: none
	Metadata map[string]string // whatever a client needs to choose by
	Since    time.Time         // when it was registered, by its own clock, to the millisecond
}

// record is the JSON of Curator's ServiceInstance.
type record struct {
	Name       string          `json:"name"`
	ID         string          `json:"id"`
	Address    string          `json:"address"`
	Port       *int            `json:"port"`
	TLSPort    *int            `json:"sslPort"`
	Payload    json.RawMessage `json:"payload"`
	Registered int64           `json:"registrationTimeUTC"` // ms since 1970
	Type       string          `json:"serviceType"`
	URI        json.RawMessage `json:"uriSpec"`
}

func (in Instance) encode() ([]byte, error) {
	port := func(n int) *int {
		if n == 0 {
			return nil
		}
		return &n
	}
	payload, err := json.Marshal(in.Metadata) // null for none
	if err != nil {
		return nil, err
	}
	return json.Marshal(record{
		Name: in.Service, ID: in.ID, Address: in.Address, Port: port(in.Port), TLSPort: port(in.TLSPort),
		Payload: payload, Registered: in.Since.UnixMilli(), Type: "DYNAMIC", URI: json.RawMessage("null"),
	})
}

// decodeInstance reads an instance, also one of Curator's: of a payload that is an object it takes the strings.
func decodeInstance(data []byte) (Instance, error) {
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return Instance{}, err
	}
	in := Instance{Service: r.Name, ID: r.ID, Address: r.Address, Since: time.UnixMilli(r.Registered)}
	if r.Port != nil {
		in.Port = *r.Port
	}
	if r.TLSPort != nil {
		in.TLSPort = *r.TLSPort
	}
	var payload map[string]any
	if json.Unmarshal(r.Payload, &payload) == nil {
		for k, v := range payload {
			if s, ok := v.(string); ok {
				if in.Metadata == nil {
					in.Metadata = make(map[string]string)
				}
				in.Metadata[k] = s
			}
		}
	}
	return in, nil
}

// Registration keeps an instance registered, by a KeptNode: what is said there of deletion, disconnects and expiry holds.
type Registration struct {
	node *KeptNode
	in   Instance
}

// NewRegistration names an instance, whose Since is set to now if it is zero. It does nothing until Run. Errors: the
// service's name or the id is empty.
func NewRegistration(base string, in Instance, o Options) (*Registration, error) {
	if in.Service == "" || in.ID == "" {
		return nil, errors.New("recipe: an instance needs a service's name and an id")
	}
	if in.Since.IsZero() {
		in.Since = time.Now()
	}
	data, err := in.encode()
	if err != nil {
		return nil, fmt.Errorf("recipe: instance %s: %w", in.ID, err)
	}
	return &Registration{node: NewKeptNode(child(child(base, nodeName(in.Service)), nodeName(in.ID)), data, o), in: in}, nil
}

// Run keeps the instance registered until ctx or the session ends: in the next one call it again, or let Sessions do it.
// When ctx ends the instance is taken back. Errors as of KeptNode.Run.
func (r *Registration) Run(ctx context.Context, c *client.Client) error { return r.node.Run(ctx, c) }

// Update changes what is registered, as KeptNode.Set; the service's name and the id stay. Errors: metadata that cannot be
// written.
func (r *Registration) Update(change func(*Instance)) error {
	in := r.in
	change(&in)
	in.Service, in.ID = r.in.Service, r.in.ID
	data, err := in.encode()
	if err != nil {
		return fmt.Errorf("recipe: instance %s: %w", in.ID, err)
	}
	r.in = in
	r.node.Set(data)
	return nil
}

// Wait returns once the instance has been there as it is now, as KeptNode.Wait.
func (r *Registration) Wait(ctx context.Context) error { return r.node.Wait(ctx) }

// Service follows the instances of one service. During an outage it goes on with those last seen.
type Service struct {
	path string
	all  *Cache
	turn atomic.Uint64
}

// NewService names a service below a base path; it knows of nothing until Run.
func NewService(base, name string) *Service {
	path := child(base, nodeName(name))
	return &Service{path: path, all: NewChildrenCache(path)}
}

// Run follows the service until ctx or the session ends, as Cache.Run.
func (s *Service) Run(ctx context.Context, c *client.Client) error { return s.all.Run(ctx, c) }

// Cache is the picture of the service's nodes, for Watch, Synced and WaitSynced.
func (s *Service) Cache() *Cache { return s.all }

// Instances are those last seen, by node name. A node that is no instance is left out.
func (s *Service) Instances() []Instance {
	var all []Instance
	for _, n := range s.all.Children(s.path) {
		if in, err := decodeInstance(n.Data); err == nil {
			if in.ID == "" {
				in.ID = realName(n.Path[strings.LastIndexByte(n.Path, '/')+1:])
			}
			all = append(all, in)
		}
	}
	return all
}

// Pick is one of the instances, each in its turn; false when there is none.
func (s *Service) Pick() (Instance, bool) {
	all := s.Instances()
	if len(all) == 0 {
		return Instance{}, false
	}
	return all[(s.turn.Add(1)-1)%uint64(len(all))], true
}

// PickFor is one of the instances, for a key always the same one as long as it is there; when one goes, only its keys get
// others. False when there is none.
func (s *Service) PickFor(key string) (Instance, bool) {
	var best Instance
	var most uint64
	all := s.Instances()
	for i, in := range all {
		if w := weight(key, in.ID); i == 0 || w > most {
			best, most = in, w
		}
	}
	return best, len(all) > 0
}

// weight draws a number for a pair, the same everywhere: the largest one wins (rendezvous hashing).
func weight(key, id string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key + "\x00" + id)) // it never fails
	x := h.Sum64()
	// FNV's high bits hardly depend on the last bytes: mix them.
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
