package replica

import "github.com/rs/zerolog"

func init() { zerolog.TimeFieldFormat = zerolog.TimeFormatUnixMs }
