/** What was pasted or dropped: images by their bytes, files by where they are. */
import type { ImageBlock } from "../generated/protocol";

const TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const LARGEST = 10 * 1024 * 1024;

/** Images among the files; `refused` says why one is not taken. */
export function imagesOfTransfer(transfer: DataTransfer): { images: Promise<ImageBlock>[]; refused: string } {
  const images: Promise<ImageBlock>[] = [];
  let refused = "";
  for (const file of transfer.files) {
    if (!TYPES.includes(file.type))
      refused = `${file.name} is no image that can be sent. Mention files with @.`;
    else if (file.size > LARGEST) refused = `${file.name} has more than 10 MB.`;
    else images.push(read(file));
  }
  return { images, refused };
}

/** Files of the editor's own views. */
export function urisOfTransfer(transfer: DataTransfer): string[] {
  const list = transfer.getData("application/vnd.code.uri-list") || transfer.getData("text/uri-list");
  return list.split(/\r?\n/).filter((line) => /^[a-z][\w+.-]*:/i.test(line));
}

async function read(file: File): Promise<ImageBlock> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let binary = "";
  for (let at = 0; at < bytes.length; at += 0x8000)
    binary += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return { type: "image", data: btoa(binary), mimeType: file.type };
}
