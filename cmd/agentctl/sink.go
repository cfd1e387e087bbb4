package main

import (
	"context"
	"fmt"
	"io"
)

// sink is where data goes. It keeps the first error, so that no command must look at
// each of its writes, and ends what would go on writing.
type sink struct {
	to  io.Writer
	end context.CancelFunc
	err error
}

func (s *sink) Write(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.to.Write(p)
	if err != nil {
		s.err = fmt.Errorf("the output cannot be written: %w", err)
		s.end()
	}
	return n, s.err
}
