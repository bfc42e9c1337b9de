import { closeSync, lstatSync, openSync, readSync } from "node:fs";

/**
 * Limit in bytes on a file that the program reads. It keeps a device file such as /dev/zero from filling the memory.
 */
const TEXT_BYTES_MAX = 16 * 1024 * 1024;

/**
 * Reads the bytes of a file, or of standard input (0). Throws an error whose message continues a sentence that begins
 * with the file's name, such as "is longer than 9 bytes".
 */
export function readBytes(path: string | 0, bytesMax = TEXT_BYTES_MAX): Buffer {
  let bytes: Buffer;
  try {
    bytes = readUpTo(path, bytesMax + 1);
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    const isDangling = code === "ENOENT" && path !== 0 && !isAbsent(path);
    const why = isDangling ? "it is a symbolic link to a file that does not exist" : message;
    throw new Error(`cannot be read (${why})`, { cause });
  }
  if (bytes.length > bytesMax) throw new Error(`is longer than ${bytesMax} bytes`);
  return bytes;
}

function readUpTo(path: string | 0, most: number): Buffer {
  const file = path === 0 ? 0 : openSync(path, "r");
  try {
    const chunks: Buffer[] = [];
    for (let left = most; left > 0; ) {
      const chunk = Buffer.allocUnsafe(Math.min(left, 65_536));
      const read = readSync(file, chunk);
      if (read === 0) break;
      chunks.push(chunk.subarray(0, read));
      left -= read;
    }
    return Buffer.concat(chunks);
  } finally {
    if (file !== 0) closeSync(file);
  }
}

/** Reads the text of a file, without a byte order mark. Throws what `readBytes` and `decodeText` throw. */
export function readText(path: string): string {
  return decodeText(readBytes(path));
}

/**
 * Decodes UTF-8 strictly, so that different bytes never give the same text. If the bytes are not UTF-8, throws an error
 * that names the remedy. The user's editor may show the file as if nothing were wrong.
 */
export function decodeText(bytes: Uint8Array): string {
  const mark = bytes[0] === 0xff && bytes[1] === 0xfe;
  if (mark || (bytes[0] === 0xfe && bytes[1] === 0xff))
    throw new Error('is UTF-16: save it as UTF-8 (in PowerShell: "..." | Out-File -Encoding utf8 FILE)');
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new Error("is not UTF-8: save it as UTF-8, and write raw bytes as hex or base64", { cause });
  }
  const problem = lostCharacter(text);
  if (problem !== undefined) throw new Error(problem);
  return text;
}

/**
 * Describes the problem of a text that was decoded wrongly before, if a character in it shows this; otherwise returns
 * undefined. For bytes of an environment variable that are not UTF-8, Node puts U+FFFD. UTF-16 that is decoded as UTF-8
 * has a NUL beside each letter.
 */
export function lostCharacter(text: string): string | undefined {
  if (text.includes("\0")) return "contains a NUL character: save it as UTF-8, without NUL";
  if (!text.includes("\ufffd")) return undefined;
  return "contains U+FFFD, which replaced bytes that were not UTF-8: write it again as UTF-8";
}

/** Returns whether nothing exists at this path. Broken links and inaccessible files count as existing. */
export function isAbsent(path: string): boolean {
  try {
    lstatSync(path);
    return false;
  } catch (error) {
    return ["ENOENT", "ENOTDIR"].includes(String((error as NodeJS.ErrnoException).code));
  }
}
