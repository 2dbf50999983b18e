package kit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	sample "kapis.dev/ks-apiserver/config/samples/extension"
	"kapis.dev/ks-apiserver/pkg/chart"
)

// ChartFolder is the folder of a project that has the chart.
const ChartFolder = "chart"

// goModule is the go.mod of the backend. It is no file of the sample, which belongs to the module of this program.
const goModule = "module example.com/%s/backend\n\ngo 1.26\n"

// Create writes a new extension with a name into a folder that is empty, or not there yet. It returns the names of its files.
func Create(dir, name string) ([]string, error) {
	if err := chart.CheckName(name); err != nil {
		return nil, err
	}
	if has, err := os.ReadDir(dir); err == nil && len(has) > 0 {
		return nil, fmt.Errorf("the folder %s is not empty: name another one with --dir", dir)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the folder: %w", err)
	}
	defer func() { _ = root.Close() }() // it is a folder
	files, err := fs.Sub(sample.Files, sample.Name)
	if err != nil {
		return nil, fmt.Errorf("read the sample: %w", err)
	}
	renamed := renaming(name)
	var written []string
	err = fs.WalkDir(files, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, file)
		if err != nil {
			return err
		}
		written = append(written, file)
		return create(root, file, renamed.Replace(string(text)))
	})
	if err == nil {
		written = append(written, "backend/go.mod")
		err = create(root, "backend/go.mod", fmt.Sprintf(goModule, name))
	}
	if err != nil {
		return nil, fmt.Errorf("write the extension: %w", err)
	}
	slices.Sort(written)
	return written, nil
}

// renaming replaces the name of the sample, in each of the ways in which it is written.
func renaming(name string) *strings.Replacer {
	words := strings.FieldsFunc(name, func(r rune) bool { return r == '-' })
	for i, w := range words {
		words[i] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.NewReplacer(sample.Name, name, strings.ToUpper(sample.Name[:1])+sample.Name[1:], strings.Join(words, " "),
		strings.ToUpper(sample.Name), strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
}

// create writes a file that is not there yet.
func create(root *os.Root, name, text string) error {
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
