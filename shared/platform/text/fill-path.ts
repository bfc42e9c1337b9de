/**
 * Fills the parameters of a path: `{name}`, or `{name+}` for several segments. `rest` has the values that the path does
 * not name.
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
