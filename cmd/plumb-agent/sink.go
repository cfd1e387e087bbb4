package main

import (
	"fmt"
	"io"
)

// sink is where data goes. It keeps the first error.
type sink struct {
	to  io.Writer
	err error
}

func (s *sink) Write(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.to.Write(p)
	if err != nil {
		s.err = fmt.Errorf("the output cannot be written: %w", err)
	}
	return n, s.err
}
