"""Serves the handlers of a table, argv[1], by Flask and by aiohttp; prints their ports."""
import json
import logging
import re
import socket
import sys
import threading

from aiohttp import web
from flask import Flask, jsonify
from werkzeug.serving import WSGIRequestHandler, make_server

HANDLERS = json.loads(sys.argv[1])
logging.getLogger('werkzeug').disabled = True
flask = Flask('flask')
aiohttp = web.Application()


def add(handler):
    def by_flask(**found):
        return jsonify(tag=handler['tag'], sid=found.get('sid'))

    async def by_aiohttp(request):
        return web.json_response({'tag': handler['tag'], 'sid': request.match_info.get('sid')})

    path = handler['path']
    # `<path:rest>` does not match the empty rest, so an application has a second rule for it.
    if path.endswith('/*'):
        flask.add_url_rule(re.sub(r':(\w+)', r'<\1>', path[:-1]), path[:-1], by_flask)
    braced = re.sub(r':(\w+)', r'{\1}', path)
    flask.add_url_rule(re.sub(r'\*$', '<path:rest>', re.sub(r':(\w+)', r'<\1>', path)), path, by_flask)
    aiohttp.router.add_route('*', re.sub(r'\*$', '{rest:.*}', braced), by_aiohttp)


for each in HANDLERS:
    add(each)
WSGIRequestHandler.protocol_version = 'HTTP/1.1'
server = make_server('127.0.0.1', 0, flask, threaded=True)
threading.Thread(target=server.serve_forever, daemon=True).start()


async def started(_):
    print(json.dumps({'Flask': server.port, 'aiohttp': aiohttp_socket.getsockname()[1]}), flush=True)


aiohttp_socket = socket.create_server(('127.0.0.1', 0))
aiohttp.on_startup.append(started)
web.run_app(aiohttp, sock=aiohttp_socket, print=None, access_log=None)
