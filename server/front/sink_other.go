//go:build !unix

package front

import "errors"

const nonBlocking = false

func tryWrite(uintptr, []byte) (int, error) { return 0, nil }

func tryRead(uintptr, []byte) (int, bool, error) { return 0, false, errors.ErrUnsupported }
