package main

import (
	"errors"
	"fmt"
	"os"

	"kapis.dev/ks-apiserver/tools/image/dockerfile"
)

// runLint checks the Dockerfiles that are named.
func runLint(files []string) error {
	if len(files) == 0 {
		return errors.New("name the Dockerfiles to check")
	}
	var wrong []error
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read a Dockerfile: %w", err)
		}
		_, problems, err := dockerfile.Check(text)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", file, err))
		}
		for _, p := range problems {
			wrong = append(wrong, fmt.Errorf("%s: %s", file, p))
		}
	}
	return errors.Join(wrong...)
}
