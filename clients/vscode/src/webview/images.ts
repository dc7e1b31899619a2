/** Images that came with a message, from their own bytes alone. */
import type { ImageBlock } from "../generated/protocol";
import { h } from "./dom";

const SHOWN = /^image\/(png|jpeg|gif|webp|bmp)$/;

export function imageSource(image: ImageBlock): string | null {
  return SHOWN.test(image.mimeType) ? `data:${image.mimeType};base64,${image.data}` : null;
}

export function imagesView(images: ImageBlock[]): HTMLElement {
  const element = h("div", { class: "images" });
  images.forEach((image, index) => {
    const src = imageSource(image);
    const alt = images.length > 1 ? `Image ${index + 1}` : "Image";
    element.append(
      src ? h("img", { src, alt, class: "image" }) : h("span", { class: "chip" }, image.mimeType),
    );
  });
  return element;
}
