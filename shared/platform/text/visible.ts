/**
 * Returns text from outside in a form that can be printed anywhere: cut to `max`, in visible ASCII that needs no
 * escaping in JSON.
 */
export function visible(text: string, max = 256): string {
  const safe = text.slice(0, max).replace(/[^!#-[\]-~]/g, (char) => {
    const code = char.charCodeAt(0);
    return code < 0x100 ? `%${code.toString(16).toUpperCase().padStart(2, "0")}` : "?";
  });
  return text.length <= max && safe.length <= max ? safe : `${safe.slice(0, max)}...`;
}
