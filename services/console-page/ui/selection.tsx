import { useEffect, useRef, useState } from "preact/hooks";

/** Maximum number of ids in the request for one bulk operation. */
const IDS_MAX = 1000;

export type Selection = {
  selected: ReadonlySet<string>;
  /**
   * Selects an item, or removes it from the selection. With `isRange`, selects every item from the one toggled last to
   * this one.
   */
  toggle: (id: string, isRange: boolean) => void;
  /** Clears the selection, or, if it is empty, selects every listed item, up to `IDS_MAX`. */
  toggleAll: () => void;
  clear: () => void;
};

/**
 * Keeps which items of a list are selected. The selection is cleared when the list changes (`listKey`) and when the
 * user presses Escape.
 */
export function useSelection(listKey: string, ids: readonly string[]): Selection {
  const [selected, setSelected] = useState<ReadonlySet<string>>(NONE);
  const before = useRef<string | undefined>(undefined);
  useEffect(() => setSelected(NONE), [listKey]);
  useEffect(() => {
    const clear = ({ key }: KeyboardEvent) => {
      if (key === "Escape" && document.querySelector("dialog[open]") === null) setSelected(NONE);
    };
    window.addEventListener("keydown", clear);
    return () => window.removeEventListener("keydown", clear);
  }, []);
  const add = (more: readonly string[]) =>
    setSelected((known) => new Set([...known, ...more].slice(0, IDS_MAX)));
  const toggle = (id: string, isRange: boolean) => {
    const [from, to] = [ids.indexOf(before.current ?? id), ids.indexOf(id)].sort((a, b) => a - b);
    before.current = id;
    if (isRange && from !== undefined && from >= 0 && to !== undefined) add(ids.slice(from, to + 1));
    else if (selected.has(id)) setSelected(new Set([...selected].filter((each) => each !== id)));
    else add([id]);
  };
  return {
    selected,
    toggle,
    toggleAll: () => (selected.size > 0 ? setSelected(NONE) : add(ids)),
    clear: () => setSelected(NONE),
  };
}

const NONE: ReadonlySet<string> = new Set();

type Props = { selection: Selection; listed: number; of: string };

/** A checkbox that selects every listed item, or none. It is half checked if only some are selected. */
export function SelectAll({ selection: { selected, toggleAll }, listed, of }: Props) {
  const some = selected.size > 0;
  const isAll = selected.size === Math.min(listed, IDS_MAX);
  return (
    <input
      type="checkbox"
      aria-label={`Select all listed ${of}`}
      title={`Select all listed ${of}`}
      checked={some && isAll}
      ref={(box) => {
        if (box !== null) box.indeterminate = some && !isAll;
      }}
      disabled={listed === 0}
      onClick={toggleAll}
    />
  );
}
