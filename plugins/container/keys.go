package container

import "github.com/plumb-net/plumb/models"

func microserviceKey(label string) string { return models.MicroserviceKey(label) }

// containerKey is the key of a container known as <runtime>:<id>.
func containerKey(name string) string { return models.KindContainer + "/" + models.Escape(name) }
