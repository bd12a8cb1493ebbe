package store

import (
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// engineFS stands between Pebble and the file system for two rules of ours.
//
// First, any failed write is fatal. What Pebble makes of one depends on where it happens: SyncWait returns it, Fatalf is
// called, a flush is tried again for ever until writes stall, and a failed change of the WAL ends the process by an
// unlock of an unlocked mutex, before anybody can log a line. So the error is published here, and whoever met it is
// parked and never comes back to Pebble with it.
//
// Second, marker files get the order that Pebble relies on. A marker names the MANIFEST; moving it is: create the
// MANIFEST, create the new marker, remove the old one, and only then sync the directory. A file system that keeps the
// order of these passes a crash; one that does not may be left with a marker of a MANIFEST that is not there, or without
// any, which reads as "no store". So the directory is synced before each step. Markers move seldom.
type engineFS struct {
	vfs.FS
	f *failure
}

// must publishes an error and parks.
func (e engineFS) must(op, name string, err error) {
	if err != nil {
		_ = e.f.fail(fmt.Errorf("store: %s %s: %w", op, name, err))
		parkFatal()
	}
}

func (e engineFS) settle(name string) {
	if strings.HasPrefix(e.PathBase(name), "marker.") {
		e.must("sync", e.PathDir(name), syncDir(e.FS, e.PathDir(name)))
	}
}

func (e engineFS) wrap(op, name string, f vfs.File, err error) (vfs.File, error) {
	e.must(op, name, err)
	return engineFile{File: f, e: e, name: name}, nil
}

// Create never returns an error.
func (e engineFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	e.settle(name)
	f, err := e.FS.Create(name, c)
	return e.wrap("create", name, f, err)
}

// ReuseForWrite never returns an error.
func (e engineFS) ReuseForWrite(oldName, newName string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := e.FS.ReuseForWrite(oldName, newName, c)
	return e.wrap("reuse", newName, f, err)
}

// OpenReadWrite passes the error of a missing file on; the file's writes never fail.
func (e engineFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := e.FS.OpenReadWrite(name, c, opts...)
	if err != nil {
		return nil, err
	}
	return e.wrap("open", name, f, nil)
}

// OpenDir passes its error on; the directory's syncs never fail.
func (e engineFS) OpenDir(name string) (vfs.File, error) {
	f, err := e.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return e.wrap("open", name, f, nil)
}

// Rename never returns an error.
func (e engineFS) Rename(oldName, newName string) error {
	e.must("rename", newName, e.FS.Rename(oldName, newName))
	return nil
}

// Remove of a marker waits for what was created before it. Its error is passed on: a file too many harms nobody.
func (e engineFS) Remove(name string) error {
	e.settle(name)
	return e.FS.Remove(name)
}

// Unwrap is part of vfs.FS.
func (e engineFS) Unwrap() vfs.FS { return e.FS }

// engineFile is a file that is written: none of its writes or syncs returns an error.
type engineFile struct {
	vfs.File
	e    engineFS
	name string
}

// Write writes all of p.
func (f engineFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	f.e.must("write", f.name, err)
	return n, nil
}

// WriteAt writes all of p.
func (f engineFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	f.e.must("write", f.name, err)
	return n, nil
}

// Sync makes everything durable.
func (f engineFile) Sync() error {
	f.e.must("sync", f.name, f.File.Sync())
	return nil
}

// SyncData makes the content durable.
func (f engineFile) SyncData() error {
	f.e.must("sync", f.name, f.File.SyncData())
	return nil
}

// SyncTo starts to make a part durable.
func (f engineFile) SyncTo(length int64) (bool, error) {
	full, err := f.File.SyncTo(length)
	f.e.must("sync", f.name, err)
	return full, nil
}

// Close ends it.
func (f engineFile) Close() error {
	f.e.must("close", f.name, f.File.Close())
	return nil
}
