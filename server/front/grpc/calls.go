package grpcfront

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	zkv1 "github.com/zkserver/zkserver/proto/zk/v1"
)

// unary executes a command and takes the result of its kind out of the reply.
func unary[R any](ctx context.Context, s *Server, c *zkv1.Command, result func(*zkv1.Reply) *R) (*R, error) {
	rep, err := s.call(ctx, c)
	if err != nil {
		return nil, err
	}
	if r := result(rep); r != nil {
		return r, nil
	}
	return nil, status.Errorf(codes.Internal, "a reply of %d bytes has no result", proto.Size(rep))
}

// Create implements the service.
func (s *Server) Create(ctx context.Context, r *zkv1.CreateRequest) (*zkv1.CreateResponse, error) {
	return unary(ctx, s, &zkv1.Command{Op: &zkv1.Command_Create{Create: r}}, (*zkv1.Reply).GetCreate)
}

// Delete implements the service.
func (s *Server) Delete(ctx context.Context, r *zkv1.DeleteRequest) (*zkv1.DeleteResponse, error) {
	return unary(ctx, s, &zkv1.Command{Op: &zkv1.Command_Delete{Delete: r}}, (*zkv1.Reply).GetDelete)
}

// Exists implements the service: a missing node is an answer.
func (s *Server) Exists(ctx context.Context, r *zkv1.ExistsRequest) (*zkv1.ExistsResponse, error) {
	res, err := unary(ctx, s, &zkv1.Command{Op: &zkv1.Command_Exists{Exists: r}}, (*zkv1.Reply).GetExists)
	if status.Code(err) == codes.NotFound {
		return &zkv1.ExistsResponse{}, nil
	}
	return res, err
}

// Get implements the service.
func (s *Server) Get(ctx context.Context, r *zkv1.GetRequest) (*zkv1.GetResponse, error) {
	return unary(ctx, s, &zkv1.Command{Op: &zkv1.Command_Get{Get: r}}, (*zkv1.Reply).GetGet)
}

// Set implements the service.
func (s *Server) Set(ctx context.Context, r *zkv1.SetRequest) (*zkv1.SetResponse, error) {
	return unary(ctx, s, &zkv1.Command{Op: &zkv1.Command_Set{Set: r}}, (*zkv1.Reply).GetSet)
}

// GetACL implements the service.
func (s *Server) GetACL(ctx context.Context, r *zkv1.GetACLRequest) (*zkv1.GetACLResponse, error) {
	return unary(ctx, s, &zkv1.Command{Op: &zkv1.Command_GetAcl{GetAcl: r}}, (*zkv1.Reply).GetGetAcl)
}

// SetACL implements the service.
func (s *Server) SetACL(ctx context.Context, r *zkv1.SetACLRequest) (*zkv1.SetACLResponse, error) {
	return unary(ctx, s, &zkv1.Command{Op: &zkv1.Command_SetAcl{SetAcl: r}}, (*zkv1.Reply).GetSetAcl)
}

// Children implements the service.
func (s *Server) Children(ctx context.Context, r *zkv1.ChildrenRequest) (*zkv1.ChildrenResponse, error) {
	return unary(ctx, s, &zkv1.Command{Op: &zkv1.Command_Children{Children: r}}, (*zkv1.Reply).GetChildren)
}

// AllChildrenNumber implements the service.
func (s *Server) AllChildrenNumber(ctx context.Context, r *zkv1.AllChildrenNumberRequest) (*zkv1.AllChildrenNumberResponse, error) {
	return unary(ctx, s, &zkv1.Command{Op: &zkv1.Command_AllChildrenNumber{AllChildrenNumber: r}}, (*zkv1.Reply).GetAllChildrenNumber)
}

// Sync implements the service.
func (s *Server) Sync(ctx context.Context, r *zkv1.SyncRequest) (*zkv1.SyncResponse, error) {
	return unary(ctx, s, &zkv1.Command{Op: &zkv1.Command_Sync{Sync: r}}, (*zkv1.Reply).GetSync)
}

// Multi implements the service: a refused one is an answer.
func (s *Server) Multi(ctx context.Context, r *zkv1.MultiRequest) (*zkv1.MultiResponse, error) {
	return unary(ctx, s, &zkv1.Command{Op: &zkv1.Command_Multi{Multi: r}}, (*zkv1.Reply).GetMulti)
}

// MultiRead implements the service.
func (s *Server) MultiRead(ctx context.Context, r *zkv1.MultiReadRequest) (*zkv1.MultiReadResponse, error) {
	return unary(ctx, s, &zkv1.Command{Op: &zkv1.Command_MultiRead{MultiRead: r}}, (*zkv1.Reply).GetMultiRead)
}

// WhoAmI implements the service.
func (s *Server) WhoAmI(ctx context.Context, r *zkv1.WhoAmIRequest) (*zkv1.WhoAmIResponse, error) {
	return unary(ctx, s, &zkv1.Command{Op: &zkv1.Command_WhoAmI{WhoAmI: r}}, (*zkv1.Reply).GetWhoAmI)
}
