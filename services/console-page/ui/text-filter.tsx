import { useEffect, useState } from "preact/hooks";

type Props = { title: string; placeholder: string; value: string; onChange: (text: string) => void };

/**
 * A text field that filters a list when the user presses Enter or leaves the field. Until then it keeps the typed text,
 * even if the page is rendered again.
 */
export function TextFilter({ title, placeholder, value, onChange }: Props) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  return (
    <label class="filter">
      <span>{title}</span>
      <input
        type="search"
        placeholder={placeholder}
        value={text}
        onInput={({ currentTarget }) => setText(currentTarget.value)}
        onChange={({ currentTarget }) => onChange(currentTarget.value.trim())}
      />
    </label>
  );
}
