/**
 * Replaces the parameters of a path with their values: `{name}` with one segment, and `{name+}` with several, which the
 * value separates by slashes. Returns the path, and as `rest` the values that the path does not name.
 */
export function fillPath(template: string, values: Readonly<Record<string, unknown>>) {
  const rest = { ...values };
  const path = template.replaceAll(/\{(\w+)(\+?)\}/g, (_, name: string, plus: string) => {
    const text = String(values[name]);
    delete rest[name];
    return (plus === "" ? [text] : text.split("/")).map(encodeURIComponent).join("/");
  });
  return { path, rest };
}
