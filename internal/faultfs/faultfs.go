// Package faultfs makes a file system fail, for tests and for the harness of hostile machines.
package faultfs

import (
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// Wrap is errorfs.Wrap that also reaches the files of recycled WALs.
func Wrap(inner vfs.FS, inj errorfs.InjectorFunc) vfs.FS {
	return faultFS{FS: errorfs.Wrap(inner, inj), inj: inj}
}

type faultFS struct {
	vfs.FS
	inj errorfs.InjectorFunc
}

// ReuseForWrite injects by the new name.
func (i faultFS) ReuseForWrite(oldName, newName string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := i.FS.ReuseForWrite(oldName, newName, c)
	if err != nil {
		return nil, err
	}
	return errorfs.WrapFile(f, errorfs.InjectorFunc(func(op errorfs.Op) error {
		op.Path = newName
		return i.inj(op)
	})), nil
}

// IsSync reports whether an operation makes something durable.
func IsSync(op errorfs.Op) bool {
	return op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo
}
