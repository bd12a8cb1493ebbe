package znode

// ReadOp is one operation of a multiRead.
type ReadOp struct {
	Op       Op // OpGetData or OpGetChildren
	Path     string
	PathNull bool
}

// ReadResult is the result of one ReadOp. Data, Stat belong to OpGetData, Names to OpGetChildren, if Code is OK.
type ReadResult struct {
	Op    Op
	Code  Code
	Data  []byte
	Stat  Stat
	Names Names
}

// MultiRead executes a multiRead. Each operation succeeds or fails for itself. An operation that is no read, or has a
// null path, ends it: the results so far come with MarshallingError, which goes out with them.
func (t *Tree) MultiRead(ops []ReadOp, auth []AuthID) ([]ReadResult, Code) {
	results := make([]ReadResult, 0, len(ops))
	for i := range ops {
		op := &ops[i]
		res := ReadResult{Op: op.Op}
		switch {
		case op.PathNull || op.Op != OpGetData && op.Op != OpGetChildren:
			return results, MarshallingError
		case op.Op == OpGetData:
			res.Data, res.Stat, res.Code = t.GetData(op.Path, auth)
		default:
			res.Names, res.Stat, res.Code = t.Children(op.Path, auth)
		}
		results = append(results, res)
	}
	return results, OK
}
