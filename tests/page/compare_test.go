package page

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
)

// How pictures are compared: by the mean colours of blocks, so that the edges of letters, which
// each machine draws a little differently, do not count, and what is elsewhere does.
const (
	block = 4 // pixels, either way
	// tolerance is by how much a mean may differ, of 255.
	tolerance = 40
	// few is how many blocks of a thousand may differ.
	few = 1
)

// differing are the blocks of two pictures that differ.
func differing(a, b image.Image) (out []image.Rectangle) {
	all := a.Bounds()
	for y := all.Min.Y; y < all.Max.Y; y += block {
		for x := all.Min.X; x < all.Max.X; x += block {
			r := image.Rect(x, y, x+block, y+block).Intersect(all)
			ma, mb := mean(a, r), mean(b, r)
			for i := range ma {
				if max(ma[i], mb[i])-min(ma[i], mb[i]) > tolerance {
					out = append(out, r)
					break
				}
			}
		}
	}
	return out
}

// mean is that of red, green and blue.
func mean(m image.Image, r image.Rectangle) (sum [3]int) {
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			c := color.RGBAModel.Convert(m.At(x, y)).(color.RGBA)
			sum[0] += int(c.R)
			sum[1] += int(c.G)
			sum[2] += int(c.B)
		}
	}
	for i := range sum {
		sum[i] /= r.Dx() * r.Dy()
	}
	return sum
}

// alike says by what two pictures differ, if they do.
func alike(want, got image.Image) error {
	if want.Bounds() != got.Bounds() {
		return fmt.Errorf("the sizes are %v and %v", want.Bounds().Size(), got.Bounds().Size())
	}
	all := want.Bounds().Dx() * want.Bounds().Dy() / (block * block)
	blocks := differing(want, got)
	if len(blocks)*1000 <= all*few {
		return nil
	}
	var around image.Rectangle
	for _, r := range blocks {
		around = around.Union(r)
	}
	return fmt.Errorf("%d of %d blocks differ, within %v", len(blocks), all, around)
}

// pictures is where they are, for the documentation as well.
const pictures = "../../docs/pictures"

// compare compares the page with a picture. What it looks like instead is kept.
func (p *page) compare(name string) {
	p.t.Helper()
	shot := run(p, chromedp.CaptureScreenshot())
	got, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		p.t.Fatal(err)
	}
	file := filepath.Join(pictures, name+".png")
	if *rewrite {
		save(p.t, file, got)
		return
	}
	want, err := load(file)
	if err == nil {
		err = alike(want, got)
	}
	if err != nil {
		kept := filepath.Join(os.TempDir(), "plumb-"+name+".png")
		save(p.t, kept, got)
		p.t.Errorf("%s: %v; look at %s, and if it is to be so: go test ./tests/page -run TestPictures -rewrite", file, err, kept)
	}
}

func load(file string) (image.Image, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return png.Decode(f)
}

// save writes a picture by as many of its colours as tell it from others: a third of the bytes.
func save(t *testing.T, file string, m image.Image) {
	t.Helper()
	count := map[color.RGBA]int{}
	for y := m.Bounds().Min.Y; y < m.Bounds().Max.Y; y++ {
		for x := m.Bounds().Min.X; x < m.Bounds().Max.X; x++ {
			count[color.RGBAModel.Convert(m.At(x, y)).(color.RGBA)]++
		}
	}
	most := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int {
		if count[a] != count[b] {
			return count[b] - count[a]
		}
		return slices.Compare([]uint8{a.R, a.G, a.B}, []uint8{b.R, b.G, b.B})
	})
	var palette color.Palette
	for _, c := range most {
		near := func(o color.Color) bool {
			p := o.(color.RGBA)
			return max(c.R, p.R)-min(c.R, p.R) < 16 && max(c.G, p.G)-min(c.G, p.G) < 16 && max(c.B, p.B)-min(c.B, p.B) < 16
		}
		if len(palette) < 256 && (count[c] > 200 || !slices.ContainsFunc(palette, near)) {
			palette = append(palette, c)
		}
	}
	out := image.NewPaletted(m.Bounds(), palette)
	draw.Draw(out, out.Rect, m, m.Bounds().Min, draw.Src)
	var data bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&data, out); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestCompare: what people would see differs, and what they would not does not.
func TestCompare(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(pictures, "*.png"))
	if err != nil || len(files) == 0 {
		t.Fatal("no pictures", err)
	}
	for _, file := range files {
		want, err := load(file)
		if err != nil {
			t.Fatal(err)
		}
		b := want.Bounds()
		other := image.NewRGBA(b)
		same := func() { draw.Draw(other, b, want, b.Min, draw.Src) }
		same()
		if err := alike(want, other); err != nil {
			t.Errorf("%s: it differs from itself: %v", file, err)
		}
		for y := b.Min.Y; y < b.Max.Y; y++ {
			for x := b.Min.X; x < b.Max.X; x++ {
				c := other.RGBAAt(x, y)
				c.R, c.G, c.B = c.R&^7, c.G|7, c.B^5 // as another rasteriser might
				other.SetRGBA(x, y, c)
			}
		}
		if err := alike(want, other); err != nil {
			t.Errorf("%s: shades count: %v", file, err)
		}
		draw.Draw(other, b, want, b.Min.Add(image.Pt(8, 0)), draw.Src)
		if alike(want, other) == nil {
			t.Errorf("%s: moved by 8 pixels it is not noticed", file)
		}
		same()
		draw.Draw(other, image.Rect(b.Max.X-430, 80, b.Max.X, 110), image.NewUniform(want.At(b.Max.X-2, b.Max.Y-2)), image.Point{}, draw.Src)
		if alike(want, other) == nil {
			t.Errorf("%s: without its tabs it is not noticed", file)
		}
		if err := alike(want, image.NewRGBA(b.Inset(1))); err == nil {
			t.Errorf("%s: another size is not noticed", file)
		}
	}
	if _, err := load("missing.png"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
