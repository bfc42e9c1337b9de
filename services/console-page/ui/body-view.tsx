import { useState } from "preact/hooks";
import { useCopy } from "./copy.tsx";
import { Json } from "./json.tsx";
import { bytes as sizeOf } from "./number.ts";
import { Segments } from "./segments.tsx";

const FORMS = ["JSON", "Text", "Hex"] as const;
type Form = (typeof FORMS)[number];

/**
 * Number of characters that are shown until the user asks for the rest. The browser would hang for a while on a
 * megabyte of text.
 */
const TEXT_MAX = 20_000;
const HEX_BYTES_MAX = 2048;

type Props = {
  body: Uint8Array;
  label: string;
  /** Name of the downloaded file. */
  file: string;
};

/** Shows a body as foldable JSON, as text or in hex, with buttons to copy and to download it. */
export function BodyView({ body, label, file }: Props) {
  const text = asText(body);
  const json = text === undefined ? undefined : asJson(text);
  const [chosen, choose] = useState<Form | undefined>();
  const [isWhole, setWhole] = useState(false);
  if (body.length === 0) return <p class="muted">Empty.</p>;
  const forms = FORMS.filter(
    (form) => form === "Hex" || (form === "Text" ? text !== undefined : json !== undefined),
  );
  const form = chosen ?? forms[0] ?? "Hex";
  return (
    <div class="body-view">
      <div class="buttons">
        <Segments
          label={`Format of the ${label}`}
          options={forms.map((each) => ({ value: each, name: each }))}
          value={form}
          onChange={choose}
        />
        {text !== undefined && (
          <CopyButton text={form === "JSON" ? formatted(json?.value) : text} label={label} />
        )}
        <button type="button" onClick={() => download(body, file)}>
          Download
        </button>
      </div>
      {form === "JSON" && json !== undefined && <Json value={json.value} />}
      {form === "Text" && text !== undefined && <Pre text={isWhole ? text : text.slice(0, TEXT_MAX)} />}
      {form === "Hex" && <Pre text={hex(isWhole ? body : body.subarray(0, HEX_BYTES_MAX))} />}
      {!isWhole && isCut(form, body, text) && (
        <button type="button" class="link" onClick={() => setWhole(true)}>
          Show all {sizeOf(body.length)}
        </button>
      )}
    </div>
  );
}

function CopyButton({ text, label }: { text: string; label: string }) {
  const [isCopied, copy] = useCopy(text);
  return (
    <button type="button" onClick={copy} aria-label={`Copy the ${label}`}>
      {isCopied ? "Copied" : "Copy"}
    </button>
  );
}

function formatted(value: unknown): string {
  return JSON.stringify(value, null, 2);
}

/**
 * Saves the bytes unchanged as a file. They get a content type that no browser displays or runs, because they come from
 * strangers.
 */
function download(body: Uint8Array, file: string): void {
  const url = URL.createObjectURL(new Blob([new Uint8Array(body)], { type: "application/octet-stream" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = file;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

function Pre({ text }: { text: string }) {
  // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard must reach an element that scrolls
  return <pre tabIndex={0}>{text}</pre>;
}

function isCut(form: Form, body: Uint8Array, text = ""): boolean {
  return form === "Hex" ? body.length > HEX_BYTES_MAX : form === "Text" && text.length > TEXT_MAX;
}

/** Decodes UTF-8. Returns undefined if the bytes are not UTF-8, or have characters that do not occur in text. */
function asText(body: Uint8Array): string | undefined {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(body);
    return /[^\P{Cc}\t\r\n]/u.test(text) ? undefined : text;
  } catch {
    return undefined;
  }
}

/** Parses JSON. Returns undefined unless it is an object or an array: other values have no parts to fold. */
function asJson(text: string): { value: object } | undefined {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    return { value: JSON.parse(text) as object };
  } catch {
    return undefined;
  }
}

const PER_LINE = 16;

/** Writes bytes as `hexdump -C` does: offset, bytes and visible ASCII. */
function hex(body: Uint8Array): string {
  const lines: string[] = [];
  for (let at = 0; at < body.length; at += PER_LINE) {
    const some = [...body.subarray(at, at + PER_LINE)];
    const digits = some.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const visible = some
      .map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "."))
      .join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${digits.padEnd(PER_LINE * 3)} ${visible}`);
  }
  return lines.join("\n");
}
