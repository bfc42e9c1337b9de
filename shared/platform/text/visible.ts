/**
 * Returns a text that a client has sent, in a form that is safe in logs and answers. It consists of visible ASCII that
 * needs no escaping in JSON, and is cut after `max` characters.
 */
export function visible(text: string, max = 256): string {
  const safe = text.slice(0, max).replace(/[^!#-[\]-~]/g, (char) => {
    const code = char.charCodeAt(0);
    return code < 0x100 ? `%${code.toString(16).toUpperCase().padStart(2, "0")}` : "?";
  });
  return text.length <= max && safe.length <= max ? safe : `${safe.slice(0, max)}...`;
}
