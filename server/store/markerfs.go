package store

import (
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// markerFS gives Pebble's marker files the order that they rely on. A marker names the MANIFEST; moving it is: create
// the MANIFEST, create the new marker, remove the old one, and only then sync the directory. A file system that keeps
// the order of these three passes a crash; one that does not may be left with a marker of a MANIFEST that is not there,
// or without any, which reads as "no store". So the directory is synced before each step. Markers move seldom.
type markerFS struct{ vfs.FS }

func (f markerFS) settle(name string) error {
	if !strings.HasPrefix(f.PathBase(name), "marker.") {
		return nil
	}
	return syncDir(f.FS, f.PathDir(name))
}

// Create syncs the directory before a new marker.
func (f markerFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.settle(name); err != nil {
		return nil, err
	}
	return f.FS.Create(name, c)
}

// Remove syncs the directory before an old marker goes.
func (f markerFS) Remove(name string) error {
	if err := f.settle(name); err != nil {
		return err
	}
	return f.FS.Remove(name)
}

// Unwrap is part of vfs.FS.
func (f markerFS) Unwrap() vfs.FS { return f.FS }
