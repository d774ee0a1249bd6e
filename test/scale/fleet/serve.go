package fleet

import (
	"context"
	"encoding/json"
	"io"
	"time"
)

// Order is what a crowd in another process is to do.
type Order struct {
	// Start are numbers of nodes to start.
	Start []int
	// Await is how long to wait until all watches are open; zero not to wait.
	Await time.Duration
}

// Answer is what it answers when that is done.
type Answer struct {
	// Error is why it is not done.
	Error string
	Report
}

// Serve runs the commands of the input on a fleet until the input ends, and returns why.
func Serve(ctx context.Context, c *Crowd, in io.Reader, out io.Writer) error {
	orders, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var order Order
		if err := orders.Decode(&order); err != nil {
			return err
		}
		var answer Answer
		if err := c.do(ctx, order); err != nil {
			answer.Error = err.Error()
		}
		answer.Report = c.Take()
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
}

func (c *Crowd) do(ctx context.Context, order Order) error {
	for _, n := range order.Start {
		if err := c.Start(n); err != nil { //nolint:contextcheck // Nodes outlive the order.
			return err
		}
	}
	if order.Await == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, order.Await)
	defer cancel()
	return c.AwaitOpen(ctx)
}
