// Package client speaks with an agent, through its socket or over the network.
//
//	c := client.New("/run/plumb/agent.sock")
//	defer c.Close()
//	web, err := c.Get(ctx, &apiv1.GetRequest{Key: "interface/web"})
//	if err != nil {
//		return c.Explain(err)
//	}
package client
