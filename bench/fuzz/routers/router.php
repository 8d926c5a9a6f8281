<?php
// Serves the handlers of a table, in HANDLERS, by the path that PHP splits, then decodes.
$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
if (!is_string($path)) {
    http_response_code(400);
    return;
}
$segments = array_map('rawurldecode', explode('/', substr($path, 1)));
foreach (json_decode(getenv('HANDLERS'), true) as $handler) {
    $parts = explode('/', substr($handler['path'], 1));
    $open = end($parts) === '*';
    if ($open ? count($segments) < count($parts) : count($segments) !== count($parts)) continue;
    $found = [];
    foreach ($parts as $i => $part) {
        if ($open && $i === count($parts) - 1) break;
        if ($part !== '' && $part[0] === ':' && $segments[$i] !== '') $found[substr($part, 1)] = $segments[$i];
        elseif ($part !== $segments[$i]) continue 2;
    }
    echo json_encode(['tag' => $handler['tag'], 'sid' => $found['sid'] ?? null]);
    return;
}
http_response_code(404);
