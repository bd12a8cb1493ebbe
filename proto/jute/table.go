package jute

// Record is what every record of this package is.
type Record interface {
	Append(dst []byte) []byte
	Decode(d *Decoder)
}

// NewRequest returns an empty body for a request; nil where the request has none (ping, whoAmI, closeSession) or the
// opcode is unknown. The hot paths do not use it: they name their records.
func NewRequest(op OpCode) Record {
	switch op {
	case OpCreate, OpCreate2, OpCreateContainer:
		return new(CreateRequest)
	case OpCreateTTL:
		return new(CreateTTLRequest)
	case OpDelete, OpCheck:
		return new(DeleteRequest)
	case OpExists, OpGetData, OpGetChildren, OpGetChildren2:
		return new(GetDataRequest)
	case OpSetData:
		return new(SetDataRequest)
	case OpGetACL, OpSync, OpGetEphemerals, OpGetAllChildrenNumber:
		return new(PathRequest)
	case OpSetACL:
		return new(SetACLRequest)
	case OpMulti, OpMultiRead:
		return new(MultiRequest)
	case OpReconfig:
		return new(ReconfigRequest)
	case OpCheckWatches, OpRemoveWatches:
		return new(RemoveWatchesRequest)
	case OpDeleteContainer:
		return new(DeleteContainerRequest)
	case OpAuth:
		return new(AuthPacket)
	case OpSetWatches:
		return new(SetWatches)
	case OpSetWatches2:
		return new(SetWatches2)
	case OpSASL:
		return new(GetSASLRequest)
	case OpAddWatch:
		return new(AddWatchRequest)
	}
	return nil
}

// NewResponse returns an empty body for a successful reply; nil where the reply is a header alone.
func NewResponse(op OpCode) Record {
	switch op {
	case OpCreate, OpSync:
		return new(CreateResponse)
	case OpCreate2, OpCreateContainer, OpCreateTTL:
		return new(Create2Response)
	case OpExists, OpSetData, OpSetACL:
		return new(StatResponse)
	case OpGetData, OpReconfig:
		return new(GetDataResponse)
	case OpGetACL:
		return new(GetACLResponse)
	case OpGetChildren:
		return new(GetChildrenResponse)
	case OpGetChildren2:
		return new(GetChildren2Response)
	case OpMulti, OpMultiRead:
		return new(MultiResponse)
	case OpSASL:
		return new(SetSASLResponse)
	case OpGetEphemerals:
		return new(GetEphemeralsResponse)
	case OpGetAllChildrenNumber:
		return new(GetAllChildrenNumberResponse)
	case OpAddWatch:
		return new(ErrorResponse)
	case OpWhoAmI:
		return new(WhoAmIResponse)
	}
	return nil
}
