/** Drawing of each icon: the path of an SVG of 20×20, drawn as a line. */
const PATHS = {
  gate: "M5 17V9a5 5 0 0 1 10 0v8M10 17v-6M3 17h14",
  keyboard: "M2.5 5.5h15v9h-15zM5.5 8.5h.1M8.5 8.5h.1M11.5 8.5h.1M14.5 8.5h.1M7 11.8h6",
  leave: "M8 3.5H4v13h4M8.5 10h8M13.5 6.8 16.7 10l-3.2 3.2",
  sun: "M10 6.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 1 0 0-7M10 2v1.6M10 16.4V18M2 10h1.6M16.4 10H18M4.3 4.3l1.2 1.2M14.5 14.5l1.2 1.2M4.3 15.7l1.2-1.2M14.5 5.5l1.2-1.2",
  moon: "M16.5 12.2A7 7 0 0 1 7.8 3.5a7 7 0 1 0 8.7 8.7z",
  contrast: "M10 2.8a7.2 7.2 0 1 0 0 14.4 7.2 7.2 0 1 0 0-14.4v14.4M10 6h4.6M10 9h6.5M10 12h6M10 15h3.5",
  copy: "M7 7h9v9H7zM4 13V4h9",
  check: "M4 10.5 8 14.5 16 5.5",
  link: "M11.5 4H16v4.5M16 4l-7 7M13 12v4H4V7h4",
  close: "M5 5l10 10M15 5 5 15",
  search: "M9 3.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 1 0 0-11M13 13l4 4",
};

/** Shows an icon. Screen readers skip it, because a word is beside it or in the label of its button. */
export function Icon({ name }: { name: keyof typeof PATHS }) {
  return <Drawing path={PATHS[name]} />;
}

export function Drawing({ path }: { path: string }) {
  return (
    <svg class="icon" viewBox="0 0 20 20" aria-hidden="true" focusable="false">
      <path d={path} />
    </svg>
  );
}
