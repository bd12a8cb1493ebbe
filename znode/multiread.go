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
	Names []string
}
