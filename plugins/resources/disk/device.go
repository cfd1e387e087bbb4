package disk

import (
	"os"
	"strings"
)

// DeviceFile is the file of a block device, as /dev/sda, given its numbers; these, if the
// kernel does not know it.
func DeviceFile(device string) string {
	text, err := os.ReadFile("/sys/dev/block/" + device + "/uevent")
	if err != nil {
		return device
	}
	_, rest, _ := strings.Cut("\n"+string(text), "\nDEVNAME=")
	if name, _, _ := strings.Cut(rest, "\n"); name != "" {
		return "/dev/" + name
	}
	return device
}
