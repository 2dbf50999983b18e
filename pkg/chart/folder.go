package chart

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// ReadFolder reads a chart that is not packed yet, from the folder that has its files. Names that begin with a dot are left out: they are
// of editors and of version control. The bounds are those of an archive, and links are refused as there.
func ReadFolder(dir string) (*Archive, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("read the chart: %w", err)
	}
	defer func() { _ = root.Close() }() // it is a folder
	out, entries := &Archive{}, 0
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("read the chart: %w", err)
		case name == ".":
			return nil
		case strings.HasPrefix(path.Base(name), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !d.IsDir() && !d.Type().IsRegular():
			return fmt.Errorf("%s is a link or a device: only files and folders are packed", name)
		case !isPlain(name):
			return fmt.Errorf("the name %.200q can't be packed: it means something else on other systems", name)
		}
		if entries++; entries > MaxFiles {
			return fmt.Errorf("%s has more than %d files", dir, MaxFiles)
		}
		if d.IsDir() {
			return nil
		}
		return out.readFile(root, name)
	})
	if err != nil {
		return nil, err
	}
	if len(out.Files) == 0 {
		return nil, fmt.Errorf("%s has no files", dir)
	}
	out.sort()
	return out, nil
}

func (a *Archive) readFile(root *os.Root, name string) error {
	f, err := root.Open(name)
	if err != nil {
		return fmt.Errorf("read the chart: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxUnpacked-a.Size+1))
	if err != nil {
		return fmt.Errorf("read the chart: %w", err)
	}
	if a.Size += int64(len(data)); a.Size > MaxUnpacked {
		return errUnpacked
	}
	a.Files = append(a.Files, File{Name: name, Data: data})
	return nil
}
