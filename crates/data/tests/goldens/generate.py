"""Writes the golden files for decoding and resizing, with Pillow.

The views are torchvision's: `Resize(short side)` then `CenterCrop` for
evaluation, `resized_crop` (crop first, then resize) for training, both
bilinear with antialiasing. Written without torchvision so that every step is
to be seen here.

    pip install pillow==13.0.0 numpy && python generate.py
"""

from pathlib import Path

import numpy as np
from PIL import Image

here = Path(__file__).parent


def evaluation(image, short_side, crop):
    width, height = image.size
    if width <= height:
        size = (short_side, int(short_side * height / width))
    else:
        size = (int(short_side * width / height), short_side)
    image = image.resize(size, Image.BILINEAR)
    # Python's round() takes halves to the even neighbour, as torchvision does.
    left = int(round((size[0] - crop) / 2.0))
    top = int(round((size[1] - crop) / 2.0))
    return image.crop((left, top, left + crop, top + crop))


def save(name, image):
    (here / name).write_bytes(np.asarray(image).tobytes())


random = np.random.default_rng(0)
y, x = np.mgrid[0:45, 0:61]
smooth = np.stack([4 * x, 255 - 5 * y, 2 * x + 2 * y], axis=2)
noisy = smooth + random.normal(0, 25, smooth.shape)
photo = Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))
photo.save(here / "photo.png")
save("photo-down.bin", evaluation(photo, 40, 35))
save("photo-up.bin", evaluation(photo, 80, 70))
tall = photo.transpose(Image.ROTATE_90)
tall.save(here / "tall.png")
save("tall-down.bin", evaluation(tall, 32, 32))
# left 10, top 5, width 40, height 30, to 24 x 32 (width x height)
part = photo.crop((10, 5, 50, 35)).resize((24, 32), Image.BILINEAR)
save("photo-part.bin", part)

grey = photo.convert("L")
grey.save(here / "grey.png")
save("grey-down.bin", evaluation(grey, 40, 35))

soft = Image.fromarray(np.clip(smooth, 0, 255).astype(np.uint8))
soft.save(here / "soft.jpg", quality=95)
save("soft-down.bin", evaluation(Image.open(here / "soft.jpg"), 40, 35))

alpha = photo.copy()
alpha.putalpha(Image.fromarray((3 * x + y).astype(np.uint8)))
alpha.save(here / "alpha.png")
